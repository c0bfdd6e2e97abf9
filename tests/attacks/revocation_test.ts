import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { createApiKey, newOrganization, randomFrom, signUp } from "../helpers.ts";
import { revokeUnderLoad } from "./revocation.ts";

describe("revocation", () => {
  it("under load: in 300 tries, no request that begins after it has answered is accepted", async () => {
    const admin = await signUp();
    const { id } = await newOrganization(admin);
    const random = randomFrom(300);
    await Promise.all(Array.from({ length: 4 }, async () => {
      for (let i = 0; i < 75; i++) {
        const lateAnswers = await revokeUnderLoad(
          admin,
          await createApiKey(admin, id),
          1 + random(8),
        );
        assertEquals(lateAnswers, [401, 401, 401]);
      }
    }));
  });
});
