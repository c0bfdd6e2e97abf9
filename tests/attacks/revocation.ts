import { get, type NewApiKey, type Person, revokeApiKey } from "../helpers.ts";

/**
 * Keeps three requests with a key in flight, and revokes it after so many answers; the statuses of
 * those that began when it was revoked, one each.
 */
export async function revokeUnderLoad(
  admin: Person,
  key: NewApiKey,
  answers: number,
): Promise<number[]> {
  let revoked = false;
  const lateAnswers: number[] = [];
  const inUse = Promise.withResolvers<void>();
  const readers = Array.from({ length: 3 }, async () => {
    for (let isLate = false; !isLate;) {
      isLate = revoked;
      const response = await get(key.token);
      await response.body?.cancel();
      if (isLate) lateAnswers.push(response.status);
      if (--answers === 0) inUse.resolve();
    }
  });
  await Promise.race([inUse.promise, ...readers]);
  await revokeApiKey(admin, key);
  revoked = true;
  await Promise.all(readers);
  return lateAnswers;
}
