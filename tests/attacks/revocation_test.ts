import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { AUDIT_LOG_URL, newLog, revoke, sql, statusOnly } from "../helpers.ts";
import { TWO_DAYS, UNKNOWN_TOKEN, withKey } from "../helpers.ts";
import { assertSameTimes } from "./timing.ts";

// tests/stack/api_keys_test.ts revokes a key beside a request that waits.

describe("a revoked key", () => {
  it("is refused in the same time as an expired and an unknown one", async () => {
    const [revoked, expired] = [await newLog(), await newLog()];
    await revoke(sql, revoked.apiKeyId);
    await sql`update audit_log_private.api_keys set expires_at = now() where id = ${expired.apiKeyId}`;
    const ask = async (token: string) => {
      const answer = fetch(`${AUDIT_LOG_URL}?${TWO_DAYS}`, withKey(token));
      assertEquals(await statusOnly(answer), 401);
    };
    for (const other of [revoked.token, UNKNOWN_TOKEN]) {
      await assertSameTimes("401", () => ask(expired.token), () => ask(other));
    }
  });
});
