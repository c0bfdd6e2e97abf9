import { assertEquals, assertMatch } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { startTemporaryStack } from "../../local/temporary_stack.ts";
import { installCli } from "../clients/cli.ts";
import { runRecipes } from "../clients/recipes.ts";
import { connect } from "./cluster.ts";
import { adopt, ALL, ask, chainOf, spendTransactions } from "./log.ts";
import { addKeys, addOrganization, checkSeals, insertEntries, revoke } from "../project.ts";
import { runUpkeep, valueOf } from "../project.ts";

const [installed, old, other] = await Promise.all([
  installCli(),
  startTemporaryStack(),
  startTemporaryStack(),
]);
const [from, to] = [connect(old.postgres), connect(other.postgres)];
afterAll(async () => {
  for (const each of [from, to, old, other]) await each[Symbol.asyncDispose]();
});

describe("docs/scaling.md", () => {
  it("moves an organization with entries, counts, seals and keys, and leaves all others alone", async () => {
    // Puts the old place into a later epoch. If the move kept the transaction numbers, the new place would not
    // show the entries.
    for (const place of [from, from, from, to]) await adopt(place);
    await spendTransactions(from);
    const moved = await addOrganization(from);
    const stays = await addOrganization(from);
    const resident = await addOrganization(to);
    const [revoked] = await addKeys(from, moved.id, 1);
    await revoke(from, `${revoked?.apiKeyId}`);
    await insertEntries(from, moved.id, "2026-11-18", 3);
    await insertEntries(from, moved.id, "2026-11-19", 1);
    await insertEntries(from, moved.id, "2026-11-20", 4, {
      agent_name: "Tab\t, line\n, back\\slash, ümlaut",
    });
    await insertEntries(from, stays.id, "2026-11-20", 2);
    await insertEntries(to, resident.id, "2026-11-20", 2);
    await runUpkeep(from);
    await runUpkeep(to);
    // The seal of the first day has not seen its new entry; the other day is not over.
    await insertEntries(from, moved.id, "2026-11-19", 1);
    await insertEntries(from, moved.id, new Date().toISOString().slice(0, 10), 1);
    const follower = await ask(other, resident.token, `?${ALL}&after=beginning`);
    const before = await ask(old, moved.token, `?${ALL}`);

    const { outputOf } = await runRecipes({
      OLD_DB_URL: old.databaseUrl,
      NEW_DB_URL: other.databaseUrl,
      OLD_URL: `${old.apiUrl}/functions/v1/public-audit-log`,
      NEW_URL: `${other.apiUrl}/functions/v1/public-audit-log`,
      ORGANIZATION_ID: moved.id,
      AUDIT_LOG_API_KEY: moved.token,
      PATH: `${installed}/node_modules/.bin:${Deno.env.get("PATH")}`,
      NO_COLOR: "1",
    }, "scaling.md");

    const counted = "10 entries, counted 10, 3 seals, 1 keys; counts that are wrong: 0";
    assertEquals(outputOf("compare.sql"), `${counted}\n${counted}`);
    const [ours, theirs, status, detail] = outputOf("sha256sum").split("\n");
    assertEquals(ours, theirs);
    assertEquals(status, "400");
    assertMatch(detail ?? "", /after=beginning/);
    assertMatch(outputOf("AUDIT_LOG_URL="), /All is as it was sealed\. The chain has the seal/);

    // The new place gives the same page, and refuses the revoked key.
    assertEquals((await ask(other, moved.token, `?${ALL}`)).body, before.body);
    assertEquals((await ask(other, `${revoked?.token}`, `?${ALL}`)).status, 401);
    // The feed gives every entry once, and then the new one.
    const all = await ask(other, moved.token, `?${ALL}&after=beginning`);
    assertEquals([all.body.items.length, all.body.total], [10, 10]);
    await insertEntries(to, moved.id, "2026-11-18", 1);
    const then = await ask(other, moved.token, `?${ALL}&after=${all.after}`);
    assertEquals(then.body.items.length, 1);
    // The chain goes on. It declares each late entry once.
    await runUpkeep(to);
    const days = ["1 2026-11-18 3 0 0", "2 2026-11-19 1 0 0", "3 2026-11-20 4 0 0"];
    days.push("4 2026-11-18 4 1 0", "5 2026-11-19 2 1 0");
    assertEquals(await chainOf(to, moved.id), { days, altered: [] });
    const miscounted = to`select audit_log_private.health() ->> 'miscounted_days'`;
    assertEquals(await valueOf(miscounted), "[]");

    // Other organizations were not moved, and a cursor of the new place still works.
    await insertEntries(to, resident.id, "2026-11-20", 1);
    const next = await ask(other, resident.token, `?${ALL}&after=${follower.after}`);
    assertEquals([next.status, next.body.items.length], [200, 1]);
    assertEquals((await ask(other, stays.token, `?${ALL}`)).status, 401);

    // The chain also goes on after the new place was restored, and every day was compared.
    await adopt(to);
    await insertEntries(to, moved.id, "2026-11-20", 1);
    await checkSeals(to, moved.id);
    days.push("6 2026-11-20 5 1 0");
    assertEquals(await chainOf(to, moved.id), { days, altered: [] });
  });
});
