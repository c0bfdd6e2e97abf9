// Needs nothing.

import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { it } from "@std/testing/bdd";
import { newStreamsKey } from "../../dev/local/streams.ts";
import { readEnvironment as readOfStreams } from "../../supabase/functions/audit-log-streams/environment.ts";
import { readEnvironment } from "../../supabase/functions/public-audit-log/environment.ts";

const URL = "https://project.example";
const PUBLIC_URL = "https://project.example/functions/v1/public-audit-log";

function read(variables: Record<string, string | undefined>) {
  return readEnvironment((name) => ({ SUPABASE_URL: URL, ...variables })[name]);
}

async function readStreams(variables: Record<string, string | undefined>) {
  const AUDIT_LOG_STREAMS_KEYS = await newStreamsKey();
  const own = {
    AUDIT_LOG_STREAMS_TRIGGER_SECRET: "the-secret-that-triggers",
    AUDIT_LOG_STREAMS_KEYS,
  };
  return await readOfStreams((name) => ({ SUPABASE_URL: URL, ...own, ...variables })[name]);
}

it("readEnvironment() takes the key named default in SUPABASE_SECRET_KEYS. If that is missing or empty, takes another key there, or else the service role key", async () => {
  const secretKeys = [
    ['{"other":"o","default":"d"}', "d"],
    ['{"second":"s"}', "s"],
    ['{"default":"","second":"s"}', "s"],
    ['{"default":""}', "service role"],
    ["{}", "service role"],
    ["", "service role"],
    [undefined, "service role"],
  ] as const;
  for (const [SUPABASE_SECRET_KEYS, secretKey] of secretKeys) {
    const keys = { SUPABASE_SECRET_KEYS, SUPABASE_SERVICE_ROLE_KEY: "service role" };
    const expected = { url: URL, secretKey, publicUrl: PUBLIC_URL, consoleUrl: undefined };
    assertEquals(read(keys), expected);
    const streams = await readStreams({ ...keys, PUBLIC_AUDIT_LOG_URL: "" });
    assertEquals([streams.secretKey, streams.ownHosts[0]], [secretKey, "project.example"]);
  }
});

it("readEnvironment() refuses to start without a URL, without a key, or with malformed SUPABASE_SECRET_KEYS", async () => {
  const noUrl = { SUPABASE_URL: "", SUPABASE_SERVICE_ROLE_KEY: "s" };
  assertThrows(() => read(noUrl), Error, "SUPABASE_URL");
  for (const keys of [undefined, "", "{}", '{"default":"","other":""}']) {
    const none = { SUPABASE_SECRET_KEYS: keys, SUPABASE_SERVICE_ROLE_KEY: "" };
    const words = "no key in SUPABASE_SECRET_KEYS or SUPABASE_SERVICE_ROLE_KEY";
    assertThrows(() => read(none), Error, words);
    await assertRejects(() => readStreams(none), Error, words);
  }
  for (const SUPABASE_SECRET_KEYS of ["sb_secret_x", "[]", "null", '{"default":1}']) {
    const malformed = { SUPABASE_SECRET_KEYS, SUPABASE_SERVICE_ROLE_KEY: "s" };
    const words = "SUPABASE_SECRET_KEYS is not JSON";
    const { message } = assertThrows(() => read(malformed), Error, words);
    assertEquals(message.includes("sb_secret_x"), false);
    await assertRejects(() => readStreams(malformed), Error, words);
  }
});

it("readEnvironment() takes the address of links from PUBLIC_AUDIT_LOG_URL, and the console's from PUBLIC_AUDIT_LOG_CONSOLE_URL, as any browser shows it, and refuses to start if it is none", () => {
  const [key, publicUrl] = [{ SUPABASE_SERVICE_ROLE_KEY: "s" }, "https://logs.example/audit"];
  for (const given of [publicUrl, `${publicUrl}/`]) {
    assertEquals(read({ ...key, PUBLIC_AUDIT_LOG_URL: given }).publicUrl, publicUrl);
  }
  for (const none of ["logs", "logs.example:443/audit", ""]) {
    for (const name of ["PUBLIC_AUDIT_LOG_URL", "PUBLIC_AUDIT_LOG_CONSOLE_URL"]) {
      const noAddress = () => read({ ...key, [name]: none });
      assertThrows(noAddress, Error, `${name} is not an address`);
    }
  }
  const addresses = {
    "https://logs.example": "https://logs.example/",
    "https://logs.example/#/an-organization/log?start=2026-03-01": "https://logs.example/",
    "http://me:secret@127.0.0.1:8080/log?a=b": "http://127.0.0.1:8080/log/",
    "https://logs.example/a>\r\nb\u{e9}//": "https://logs.example/a%3Eb%C3%A9/",
  };
  for (const [PUBLIC_AUDIT_LOG_CONSOLE_URL, consoleUrl] of Object.entries(addresses)) {
    const keys = { SUPABASE_SERVICE_ROLE_KEY: "s", PUBLIC_AUDIT_LOG_CONSOLE_URL };
    assertEquals(read(keys).consoleUrl, consoleUrl);
  }
});
