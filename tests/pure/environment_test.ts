import { assertEquals, assertThrows } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { readEnvironment } from "../../supabase/functions/public-audit-log/environment.ts";

const URL = "https://project.example";
const PUBLIC_URL = "https://project.example/functions/v1/public-audit-log";

function read(variables: Record<string, string>) {
  return readEnvironment((name) => ({ SUPABASE_URL: URL, ...variables })[name]);
}

describe("readEnvironment()", () => {
  it("takes the default key of the dictionary", () => {
    const keys = {
      SUPABASE_SECRET_KEYS: '{"other":"o","default":"d"}',
      SUPABASE_SERVICE_ROLE_KEY: "s",
    };
    assertEquals(read(keys), { url: URL, secretKey: "d", publicUrl: PUBLIC_URL });
  });

  it("takes another key of the dictionary when the default key has been deleted", () => {
    const keys = { SUPABASE_SECRET_KEYS: '{"second":"s"}', SUPABASE_SERVICE_ROLE_KEY: "old" };
    assertEquals(read(keys).secretKey, "s");
  });

  it("takes the service role key of projects without a dictionary, or with an empty one", () => {
    for (const keys of [{}, { SUPABASE_SECRET_KEYS: "{}" }]) {
      assertEquals(read({ SUPABASE_SERVICE_ROLE_KEY: "s", ...keys }).secretKey, "s");
    }
  });

  it("refuses to start without a URL, without a key, and with a malformed dictionary", () => {
    const noUrl = { SUPABASE_URL: "", SUPABASE_SERVICE_ROLE_KEY: "s" };
    assertThrows(() => read(noUrl), Error, "SUPABASE_URL");
    assertThrows(() => read({}), Error, "SUPABASE_SECRET_KEYS");
    for (const keys of ["sb_secret_x", "[]", "null", '{"default":""}', '{"default":1}']) {
      const malformed = () => read({ SUPABASE_SECRET_KEYS: keys });
      const { message } = assertThrows(malformed, Error, "SUPABASE_SECRET_KEYS is not JSON");
      assertEquals(message.includes("sb_secret_x"), false);
    }
  });

  it("takes another address for links if callers reach the function there", () => {
    const [key, publicUrl] = [{ SUPABASE_SERVICE_ROLE_KEY: "s" }, "https://logs.example/audit"];
    assertEquals(read({ ...key, PUBLIC_AUDIT_LOG_URL: publicUrl }).publicUrl, publicUrl);
    const noAddress = () => read({ ...key, PUBLIC_AUDIT_LOG_URL: "logs" });
    assertThrows(noAddress, Error, "PUBLIC_AUDIT_LOG_URL is not an address");
  });
});
