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
      assertEquals(read(keys), { url: URL, secretKey, publicUrl: PUBLIC_URL });
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
    assertEquals(read({ ...key, PUBLIC_AUDIT_LOG_URL: publicUrl }).publicUrl, publicUrl);
    const noAddress = () => read({ ...key, PUBLIC_AUDIT_LOG_URL: "logs" });
    assertThrows(noAddress, Error, "PUBLIC_AUDIT_LOG_URL is not an address");
  });
});
