// Needs a stack. Slow.

import { assert, assertEquals, assertMatch } from "@std/assert";
import { it } from "@std/testing/bdd";
import { addKeys, addMember, API_URL, AUDIT_LOG_URL, DATABASE_URL } from "../helpers/cli.ts";
import { entriesOf, insertEntries, newFilledLog, newFolder, newLog } from "../helpers/cli.ts";
import { newOrganization, PUBLISHABLE_KEY, rolledBack, runRecipes } from "../helpers/cli.ts";
import { runUpkeep, signUp, sql, writeEntries } from "../helpers/cli.ts";
import { PG_CRON, RUNS, RUNS_LEFT } from "../helpers/pg_cron.ts";

const admin = await signUp();

async function sqlOf(page: string): Promise<string[]> {
  const text = await Deno.readTextFile(new URL(`../../${page}`, import.meta.url));
  return Array.from(text.matchAll(/^ *```sql\n([^]*?)^ *```$/gm), ([, block = ""]) => block);
}

it("docs/quick-start.md has a first request and programs that need nothing but the address and the token in a file", async () => {
  const { token } = await newLog({ created_at: new Date().toISOString() });
  const { outputOf } = await runRecipes({ AUDIT_LOG_API_KEY: token }, "quick-start.md");
  assertMatch(outputOf("--header @-"), /^1\n{\n {2}"id": /);
  const [python = "", node] = outputOf("last_30_days.py").split("\n");
  assertMatch(python, /^20\S+Z \S+ message_created$/);
  assertEquals(node, python);
});

it("docs/api.md has commands that all run, and print what the page says of them", async () => {
  const { id, token } = await newLog();
  const given = { action: "feedback_given", every: "1 day" };
  await insertEntries(sql, id, "2026-11-09 12:00", 12, given);
  await runUpkeep(sql);

  const env = { AUDIT_LOG_URL, AUDIT_LOG_API_KEY: token };
  const { outputOf } = await runRecipes(env, "api.md");
  const feed = (await runRecipes(env, "following.md")).outputOf("after=beginning");
  assertMatch(feed, /^{"cursor":"[^"]+","has_more":false,"next":null}$/);
  assertMatch(outputOf("/seals"), /^\[\]\n{"format":1,.*"entries":1,/);
  const text = await Deno.readTextFile(new URL("../../docs/api.md", import.meta.url));
  const blocks = text.matchAll(/^```json\n([^]*?)^```$/gm);
  const [page, action, problem] = Array.from(blocks, ([, block = ""]) => JSON.parse(block));
  const found = JSON.parse(outputOf("offset=9"));
  assertEquals([found.total, found.items.length], [12, 1]);
  assertEquals([found, found.items[0]].map(Object.keys), [page, page.items[0]].map(Object.keys));
  assertEquals(JSON.parse(outputOf("/actions")), action);
  assertEquals({ ...JSON.parse(outputOf("acton=")), request_id: problem.request_id }, problem);
});

it("docs/integrating.md has commands that all run, and print what the page says of them: the command comes from the console", async () => {
  const { token } = await newFilledLog(31, 11, 10);
  const prefix = newFolder();
  const { outputOf } = await runRecipes({
    AUDIT_LOG_URL,
    AUDIT_LOG_API_KEY: token,
    npm_config_prefix: prefix,
    PATH: `${prefix}/bin:${Deno.env.get("PATH")}`,
  }, "integrating.md");
  // After what npm says.
  assertMatch(outputOf("--out=audit.csv"), /^31 of 31 entries are in audit\.csv$/m);
  // npm update --global asks the registry for the package's name. Nobody can take one with capitals there.
  const [installed, ...others] = Array.from(Deno.readDirSync(`${prefix}/lib/node_modules`));
  assertEquals([installed?.name, others], ["Public-Audit-Log", []]);
  const commands = Array.from(Deno.readDirSync(`${prefix}/bin`), ({ name }) => name);
  assertEquals(commands, ["public-audit-log"]);
});

it("docs/keys.md has commands that all run, and print what the page says of them", async () => {
  const { id } = await newOrganization(admin);
  const { outputOf } = await runRecipes({
    API_URL,
    PUBLISHABLE_KEY,
    EMAIL: admin.email,
    PASSWORD: admin.password,
    ORGANIZATION_ID: id,
  }, "keys.md");

  const [organization] = JSON.parse(outputOf("list_organizations"))
    .filter((organization: { id: string }) => organization.id === id);
  assertEquals(organization?.is_admin, true);
  const created = JSON.parse(outputOf("call create_api_key"));
  assertMatch(created.token, /^pck_/);
  const lifetime = Date.parse(created.expires_at) - Date.parse(created.created_at);
  assertEquals(Math.ceil(lifetime / 86_400_000), 90);
  assertEquals(JSON.parse(outputOf("api_key_usage")), []);
});

it("docs/operating.md has commands that all run, and print what the page says of them", async () => {
  const { outputOf } = await runRecipes({ DB_URL: DATABASE_URL }, "operating.md");
  assertMatch(outputOf("metrics_text()"), /^audit_log_unsealed_age_seconds\{\} \d/m);
});

it("docs/operating.md has SQL that runs as the owner of the database", async () => {
  const { id } = await newLog();
  await writeEntries(id, [{ created_at: "2019-12-31T23:59:59Z" }, {}]);
  const blocks = await sqlOf("docs/operating.md");
  // What concerns all organizations is rolled back.
  const ofAll = /cron[.]|enable trigger|logging_failures/;
  await rolledBack(sql, async (run) => {
    await run.unsafe(`${PG_CRON} select cron.schedule('audit_log_streams', '', '')`);
    await run.unsafe(RUNS);
    for (const text of blocks) {
      if (ofAll.test(text)) await run.unsafe(text);
    }
    assertEquals([...await run`select jobname from cron.job`], [{ jobname: "theirs" }]);
    assertEquals([...await run.unsafe(RUNS_LEFT)], [{ ours: 0, theirs: 5 }]);
  });
  const statements = blocks.filter((text) => !ofAll.test(text)).map((text) =>
    text.replaceAll("<organization id>", id)
      // Other tests seal days, too.
      .replace("'31 days'", `$& where organization_id = '${id}'`)
  );
  // The last one deletes the organization.
  for (const statement of statements.slice(0, -1)) await sql.unsafe(statement);
  const kept = await sql`
    select action from audit_log.audit_entries where organization_id = ${id} order by action`;
  // The log has what was changed in its settings.
  assertEquals(kept.map(({ action }) => action), [
    "hold_changed",
    "message_created",
    "retention_changed",
  ]);
  await sql`update audit_log.organizations set hold_reason = null where id = ${id}`;
  await sql.unsafe(statements.at(-1) ?? "");
  assertEquals(await entriesOf(id), 0);
  const left = await sql`select from audit_log.organizations where id = ${id}`;
  assertEquals(left.length, 0);
});

it("docs/restoring.md has SQL that revokes every key of a restored database", async () => {
  const log = await newLog();
  const [statement = ""] = (await sqlOf("docs/restoring.md"))
    .filter((text) => text.includes("revoked_at"));
  await rolledBack(sql, async (transaction) => {
    await transaction.unsafe(statement);
    const left = await transaction`
      select from audit_log_private.api_keys where id = ${log.apiKeyId} and revoked_at is null`;
    assertEquals(left.length, 0);
  });
});

it("SECURITY.md has SQL that finds administrators, new keys, and keys that were ended, and revokes only the key that is named", async () => {
  const { id, ...named } = await newLog();
  const [other] = await addKeys(sql, id, 1);
  await addMember(id, admin, "admin");
  const [administrators = "", keys = "", revocation = "", organizations = ""] =
    (await sqlOf("SECURITY.md"))
      .map((text) => text.replaceAll("> '…'", "> now() - interval '1 hour'"))
      .map((text) => text.replace("'…'", `'${id}'`).replace("'…'", `'${named.apiKeyId}'`));
  const ofMine = async (query: string) =>
    (await sql.unsafe(query)).filter((row) => row["organization_id"] === id);
  assertEquals((await ofMine(administrators)).map((row) => row["user_id"]), [admin.id]);
  assertEquals((await ofMine(keys)).length, 2);
  await sql.unsafe(revocation);
  await sql`
    update audit_log_private.api_keys set created_at = created_at - interval '1 day' where organization_id = ${id}`;
  assertEquals((await ofMine(keys)).map((row) => row["id"]), [named.apiKeyId]);
  await sql`
    update audit_log_private.api_keys set owner_left_at = now() where id = ${`${other?.apiKeyId}`}`;
  assertEquals((await ofMine(keys)).length, 2);
  const listed = await sql.unsafe(organizations);
  assert(listed.some((row) => row["id"] === id));
});
