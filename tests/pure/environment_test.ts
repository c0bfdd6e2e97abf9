import { assertEquals, assertThrows } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { readEnvironment } from "../../supabase/functions/public-audit-log/environment.ts";

const URL = "https://project.example";
const PUBLIC_URL = "https://project.example/functions/v1/public-audit-log";

function read(variables: Record<string, string>) {
  return readEnvironment((name) => variables[name]);
}

describe("readEnvironment()", () => {
  it("takes the default key of the dictionary", () => {
    const keys = {
      SUPABASE_SECRET_KEYS: '{"other":"o","default":"d"}',
      SUPABASE_SERVICE_ROLE_KEY: "s",
    };
    const expected = { url: URL, secretKey: "d", publicUrl: PUBLIC_URL };
    assertEquals(read({ SUPABASE_URL: URL, ...keys }), expected);
  });

  it("takes another key of the dictionary when the default key has been deleted", () => {
    const keys = { SUPABASE_SECRET_KEYS: '{"second":"s"}', SUPABASE_SERVICE_ROLE_KEY: "old" };
    assertEquals(read({ SUPABASE_URL: URL, ...keys }).secretKey, "s");
  });

  it("takes the service role key of projects without a dictionary, or with an empty one", () => {
    for (const keys of [{}, { SUPABASE_SECRET_KEYS: "{}" }]) {
      const environment = read({ SUPABASE_URL: URL, SUPABASE_SERVICE_ROLE_KEY: "s", ...keys });
      assertEquals(environment.secretKey, "s");
    }
  });

  it("refuses to start without a URL, without a key, and with a malformed dictionary", () => {
    assertThrows(() => read({ SUPABASE_SERVICE_ROLE_KEY: "s" }), Error, "SUPABASE_URL");
    assertThrows(() => read({ SUPABASE_URL: URL }), Error, "SUPABASE_SECRET_KEYS");
    for (const keys of ["sb_secret_x", "[]", "null", '{"default":""}', '{"default":1}']) {
      const { message } = assertThrows(
        () => read({ SUPABASE_URL: URL, SUPABASE_SECRET_KEYS: keys }),
        Error,
        "SUPABASE_SECRET_KEYS is not JSON",
      );
      // No key stands in an error.
      assertEquals(message.includes("sb_secret_x"), false);
    }
  });

  it("takes another address for links where callers reach the function at one", () => {
    const variables = { SUPABASE_URL: URL, SUPABASE_SERVICE_ROLE_KEY: "s" };
    const publicUrl = "https://logs.example/audit";
    assertEquals(read({ ...variables, PUBLIC_AUDIT_LOG_URL: publicUrl }).publicUrl, publicUrl);
    assertThrows(
      () => read({ ...variables, PUBLIC_AUDIT_LOG_URL: "logs" }),
      Error,
      "PUBLIC_AUDIT_LOG_URL is not an address",
    );
  });
});
