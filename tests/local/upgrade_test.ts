import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { cp } from "node:fs/promises";
import { join } from "node:path";
import { follow } from "../../cli/follow.ts";
import { applyChanges } from "../../cli/install/files.ts";
import { planInstallation } from "../../cli/install/plan_installation.ts";
import {
  addKeys,
  addOrganization,
  countMismatches,
  insertEntries,
  insertEntry,
  revoke,
  runUpkeep,
} from "../../harness/project.ts";
import { ExistingProject, ROOT } from "./existing_project.ts";

// Installs the first release, fills it, and upgrades it to this version and one that may come after it. The
// function is always this version's, because a release keeps its SQL only.

const MIGRATIONS = "supabase/migrations";
const FIRST = /_(audit_log|people|privileges)\.sql$/;
/** The change of CONTRIBUTING.md's example. Open connections have plans with the old type. */
const LATER = "alter type audit_log.page_query add attribute later text;";

const DAYS = ["2026-03-01", "2026-03-02", "2026-03-03"];
const ENTRIES = 2_400;
const QUERIES = [
  "?start=2026-03-01&end=2026-03-31&limit=1000",
  "?start=2026-03-01&end=2026-03-31&limit=100&offset=700&order=desc",
  "?start=2026-03-02&end=2026-03-03&limit=10&offset=20&action=feedback_given",
  "/seals?start=2026-03-01&end=2026-03-03",
];

const project = await ExistingProject.start();
const { sql } = project;
const AUDIT_LOG_URL = `${project.stack.apiUrl}/functions/v1/public-audit-log`;
const folder = await Deno.makeTempDir();
afterAll(async () => {
  await Deno.remove(folder, { recursive: true });
  await project[Symbol.asyncDispose]();
});

/** Installs what is in the folder, or upgrades to it. */
async function install(): Promise<void> {
  applyChanges(project.folder, planInstallation(folder, project.folder).changes);
  await project.push();
  assertEquals(await project.pushed(), project.migrations());
}

const copy = (path: string) => cp(join(ROOT, path), join(folder, path), { recursive: true });
const readAll = (token: string) =>
  Promise.all(QUERIES.map(async (query) => {
    const response = await project.get(token, query);
    return [response.headers.get("Link"), await response.text()];
  }));

/** Follows the feed to its end. Returns the entries' ids, and the cursor after each page of 1000. */
async function readFeed(key: string, after = "beginning") {
  const pages = await Array.fromAsync(follow({ url: AUDIT_LOG_URL, key, after }));
  const ids = pages.flatMap(({ items }) => items.map(({ id }) => id));
  return { ids, cursors: pages.map(({ cursor }) => cursor) };
}

/** Fills the log. Returns what it answers before the upgrade. */
async function fill() {
  const admin = await project.signUp();
  const { id, token } = await addOrganization(sql);
  const [{ apiKeyId = "", token: revoked = "" } = {}] = await addKeys(sql, id, 1);
  await revoke(sql, apiKeyId);
  // Replaces my_organizations(), as adopters do. If an upgrade replaced it again, the organization would have no
  // administrator.
  await sql.unsafe(`
    create or replace function audit_log_private.my_organizations()
    returns table (id uuid, role text) language sql stable as $$
      select o.id, 'admin' from audit_log.organizations o
      where (select c.id = '${admin.id}' from audit_log_private.caller() as c)
    $$`);
  for (const day of DAYS) await insertEntries(sql, id, day, ENTRIES / DAYS.length);
  await runUpkeep(sql);

  const writer = await sql.reserve();
  await writer`begin`;
  await insertEntry(writer, id, { agent_name: "late" });
  const feed = await readFeed(token);
  await writer`commit`;
  writer.release();
  return { admin, id, token, revoked, feed, answers: await readAll(token) };
}

describe("after an upgrade from the first release", () => {
  let log: Awaited<ReturnType<typeof fill>>;

  beforeAll(async () => {
    await copy(MIGRATIONS);
    await copy("supabase/functions/public-audit-log");
    for (const { name } of Deno.readDirSync(join(folder, MIGRATIONS))) {
      if (!FIRST.test(name)) await Deno.remove(join(folder, MIGRATIONS, name));
    }
    await install();
    await project.expose();
    log = await fill();

    await copy(MIGRATIONS);
    await Deno.writeTextFile(join(folder, MIGRATIONS, "29990101000000_later.sql"), LATER);
    await install();
    assertMatch(project.migrations().at(-1) ?? "", /_audit_log_\d\d_later\.sql$/);
  });

  it("pages and seals have the same bytes", async () => {
    assertEquals(await readAll(log.token), log.answers);
  });

  it("old cursors go on: no entry is missed or repeated", async () => {
    const { id, token, feed: { ids, cursors } } = log;
    assertEquals([ids.length, cursors.length], [ENTRIES, 3]);
    await insertEntry(sql, id, { agent_name: "new" });
    const all = [...ids, ...(await readFeed(token, cursors[2])).ids];
    assertEquals([...ids.slice(0, 1000), ...(await readFeed(token, cursors[0])).ids], all);
    assertEquals([all.length, new Set(all).size], [ENTRIES + 2, ENTRIES + 2]);
  });

  it("counts are exact, and the chain of seals goes on without an altered day", async () => {
    const { id } = log;
    await insertEntry(sql, id, { created_at: "2026-02-01Z" });
    assertEquals(await countMismatches(sql, id), []);
    await sql`update audit_log_private.sealed_days set checked_at = checked_at - interval '31 days'`;
    await runUpkeep(sql);
    const [row] = await sql`
      select health ->> 'altered_days' as altered, health ->> 'oldest_unsealed_day' as unsealed, (
        select count(*)::int from audit_log_private.seals where organization_id = ${id}
      ) as seals
      from audit_log_private.health() as health`;
    assertEquals({ ...row }, { altered: "[]", unsealed: null, seals: DAYS.length + 1 });
  });

  it("revoked keys stay revoked, and their own administrators make new ones", async () => {
    const { admin, id, revoked } = log;
    await assertRejects(() => project.page(revoked), Error, "unauthorized");
    await project.page(await project.keyOf(admin.client, id));
  });
});
