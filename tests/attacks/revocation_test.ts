import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { AUDIT_LOG_URL, createApiKey, type NewApiKey, newLog } from "../helpers.ts";
import { newOrganization, type Person, randomFrom, revoke, revokeApiKey } from "../helpers.ts";
import { signUp, sql, statusOf, statusOnly, TWO_DAYS, UNKNOWN_TOKEN, withKey } from "../helpers.ts";
import { assertSameTimes } from "./timing.ts";

/**
 * Keeps three requests with a key in flight, and revokes it after so many answers. Returns the
 * statuses of three requests that began after the revocation had answered.
 */
async function revokeUnderLoad(admin: Person, key: NewApiKey, answers: number): Promise<number[]> {
  let revoked = false;
  const lateAnswers: number[] = [];
  const inUse = Promise.withResolvers<void>();
  const readers = Array.from({ length: 3 }, async () => {
    for (let isLate = false; !isLate;) {
      isLate = revoked;
      const status = await statusOf(key.token);
      if (isLate) lateAnswers.push(status);
      if (--answers === 0) inUse.resolve();
    }
  });
  await Promise.race([inUse.promise, ...readers]);
  await revokeApiKey(admin, key);
  revoked = true;
  await Promise.all(readers);
  return lateAnswers;
}

describe("a revoked key", () => {
  it("is refused in every request that begins after the revocation, in 100 tries under load", async () => {
    const admin = await signUp();
    const { id } = await newOrganization(admin);
    const random = randomFrom(300);
    await Promise.all(Array.from({ length: 4 }, async () => {
      for (let i = 0; i < 25; i++) {
        const key = await createApiKey(admin, id);
        assertEquals(await revokeUnderLoad(admin, key, 1 + random(8)), [401, 401, 401]);
      }
    }));
  });

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
