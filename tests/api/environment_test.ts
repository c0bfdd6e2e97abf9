// Needs nothing.

import { assertEquals, assertThrows } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { readEnvironment } from "../../supabase/functions/public-audit-log/environment.ts";

const URL = "https://project.example";
const PUBLIC_URL = "https://project.example/functions/v1/public-audit-log";

function read(variables: Record<string, string | undefined>) {
  return readEnvironment((name) => ({ SUPABASE_URL: URL, ...variables })[name]);
}

describe("readEnvironment()", () => {
  it("takes the key named default in SUPABASE_SECRET_KEYS. Without it, takes another key there, or else the service role key", () => {
    const secretKeys = [
      ['{"other":"o","default":"d"}', "d"],
      ['{"second":"s"}', "s"],
      ["{}", "service role"],
      [undefined, "service role"],
    ] as const;
    for (const [SUPABASE_SECRET_KEYS, secretKey] of secretKeys) {
      const keys = { SUPABASE_SECRET_KEYS, SUPABASE_SERVICE_ROLE_KEY: "service role" };
      const expected = { url: URL, secretKey, publicUrl: PUBLIC_URL, consoleUrl: undefined };
      assertEquals(read(keys), expected);
    }
  });

  it("refuses to start without a URL, without a key, or with malformed SUPABASE_SECRET_KEYS", () => {
    const noUrl = { SUPABASE_URL: "", SUPABASE_SERVICE_ROLE_KEY: "s" };
    assertThrows(() => read(noUrl), Error, "SUPABASE_URL");
    assertThrows(() => read({}), Error, "SUPABASE_SECRET_KEYS");
    for (const keys of ["sb_secret_x", "[]", "null", '{"default":""}', '{"default":1}']) {
      const malformed = () => read({ SUPABASE_SECRET_KEYS: keys });
      const { message } = assertThrows(malformed, Error, "SUPABASE_SECRET_KEYS is not JSON");
      assertEquals(message.includes("sb_secret_x"), false);
    }
  });

  it("takes the address of links from PUBLIC_AUDIT_LOG_URL, and refuses to start if it is none", () => {
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
  });

  it("takes the console's address from PUBLIC_AUDIT_LOG_CONSOLE_URL, as any browser shows it", () => {
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
});
