// Needs stacks of its own. Slow.

import { createClient } from "@supabase/supabase-js";
import { assertEquals, assertMatch } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { join } from "node:path";
import { freePort } from "../../dev/local/free_port.ts";
import { majorVersion } from "../../dev/local/postgres.ts";
import { startTemporaryStack, type TemporaryStack } from "../../dev/local/temporary_stack.ts";
import * as cluster from "../helpers/cluster.ts";
import { ask, assertExact, cursorOf, read, write } from "../helpers/own_log.ts";
import { addKeys, addOrganization, callAs, checkSeals, codeOf } from "../../dev/harness/project.ts";
import { countMismatches, HAS_STREAMS, insertEntries } from "../../dev/harness/project.ts";
import { insertEntry, revoke, runUpkeep, type Sql, until } from "../../dev/harness/project.ts";
import { valueOf } from "../../dev/harness/project.ts";

/** Enough entries to make statistics and batches matter. */
const [ENTRIES, DAYS] = [150_000, 30];

const version = await majorVersion(Deno.env.get("POSTGRES_PROGRAMS"));
/** Hosted projects of this version are upgraded to that one. */
const newer = version < 17 ? 17 : 18;
const programs = await cluster.findPostgres(version) ?? "";
const newerPrograms = programs && newer !== version ? await cluster.findPostgres(newer) ?? "" : "";

type Log = Awaited<ReturnType<typeof makeLog>>;
const log = programs ? await makeLog() : undefined;
afterAll(async () => await log?.stack[Symbol.asyncDispose]());
/** Runs a test with the log, or skips it where programs are missing. */
const withLog = (name: string, run: (log: Log) => Promise<void>, isPossible = true) =>
  log && isPossible ? it(name, () => run(log)) : it.skip(name, () => {});

describe("docs/restoring.md, followed with the real programs,", () => {
  withLog("moves a log to another project with a dump of the data", async (log) => {
    await using other = await startTemporaryStack();
    await using shell = await newShell(programs, [log.stack.databaseUrl, other.databaseUrl]);
    const [dump = "", load = ""] = await commandsOf("A dump of the data");
    assertMatch((await shell.run(dump)).stdout, /dump complete/);
    assertMatch((await shell.run(load)).stdout, /\(0 rows\)\n*$/);
    await using sql = cluster.connect(other.postgres);
    await assertNotFollowed(sql, log);
    await assertRestored(sql, log);
    await assertAnswers(other, log);
    if (!HAS_STREAMS) return;
    assertEquals(await valueOf(sql`select audit_log_private.is_stream_home()`), false);
  });

  withLog("restores a dump of everything in another cluster", async (log) => {
    const { postgres: old } = log.stack;
    const target = { ...old, port: freePort() };
    await using shell = await newShell(programs, [old, target].map(cluster.adminUrl));
    const dataDir = join(shell.folder, "new");
    await using restored = await cluster.startCluster({ ...target, dataDir });
    const [move = ""] = await commandsOf("A dump of everything");
    const { stdout, stderr } = await shell.run(move);
    assertMatch(stdout, /\(0 rows\)\n*$/);
    assertEquals(stderr.match(/ERROR: .*/g), ['ERROR:  role "supabase_admin" already exists']);
    await assertNotFollowed(restored.sql, log);
    await assertRestored(restored.sql, log);
  });

  withLog("brings a server back to a point in time, and no revoked key", async (log) => {
    const old = await cluster.snapshot(log.stack.postgres);
    const target = { ...old, port: freePort() };
    await using shell = await newShell(programs, [old, target].map(cluster.adminUrl));
    const inFolder = async (language: string) =>
      (await commandsOf("A base backup and a point in time", language))
        .map((text) => text.replaceAll("/backup", shell.folder));
    const [backup = "", restore = ""] = await inFolder("bash");
    const [settings = ""] = await inFolder("text");
    await shell.run("mkdir wal");
    await Deno.writeTextFile(join(old.dataDir, "postgresql.auto.conf"), settings, { append: true });
    await using original = await cluster.startCluster(old);
    await shell.run(backup);
    const { sql } = original;
    const { id: smallId } = await addOrganization(sql);
    await write(sql, smallId, "in time");
    const access = await addAccess(sql);
    const moment = await valueOf(sql`select clock_timestamp()::text`);
    await write(sql, smallId, "too late");
    const cursor = await cursorOf(sql, smallId);
    const expected = await access.change();
    const [, keep = ""] = await commandsOf("Before every restore");
    assertMatch((await shell.run(keep)).stdout, /dump complete/);
    await sql`select pg_switch_wal()`;

    const copy = { ...target, dataDir: join(shell.folder, "restored") };
    const server = `port = ${copy.port}\nunix_socket_directories = ''`;
    await shell.run(restore.replace(/(recovery_target_time = ').*'/, `$1${moment}'\n${server}`));
    await using restored = cluster.attach(copy);
    await until(async () => !await valueOf(restored.sql`select pg_is_in_recovery()`));
    // Its transactions use the numbers of the lost ones again.
    assertEquals(await read(restored.sql, smallId, cursor), null);
    const [finish = ""] = await commandsOf("After every restore");
    await shell.run(finish);
    assertEquals(await access.of(restored.sql), expected);
    await assertRestored(restored.sql, { ...log, smallId, names: ["in time"], cursor });
  });

  withLog(`takes the log to Postgres ${newer} with pg_upgrade`, async (log) => {
    const old = await cluster.snapshot(log.stack.postgres);
    await using shell = await newShell(newerPrograms, [], { PGPASSWORD: old.adminPassword });
    await shell.run(
      `initdb --pgdata=new --username=supabase_admin ${newer < 18 ? "" : "--no-data-checksums"}
      pg_upgrade --old-bindir="${programs}" --new-bindir="${newerPrograms}" \
        --old-datadir="${old.dataDir}" --new-datadir=new --username=supabase_admin`,
    );
    await Deno.remove(old.dataDir, { recursive: true });
    const dataDir = join(shell.folder, "new");
    await using upgraded = await cluster.startCluster({ ...old, programs: newerPrograms, dataDir });
    await upgraded.sql`analyze`;
    await assertRestored(upgraded.sql, log);
  }, newerPrograms !== "");
});

/** Starts a stack with a log: entries, counts, seals, keys, accounts and cursors. */
async function makeLog() {
  const stack = await startTemporaryStack();
  await using sql = cluster.connect(stack.postgres);
  const person = { email: "ada@example.com", password: crypto.randomUUID() };
  const { data, error } = await auth(stack).signUp(person);
  if (error) throw error;

  // All entries of the large organization are of finished days.
  const { id: largeId, token } = await addOrganization(sql);
  const { id: smallId } = await addOrganization(sql);
  await sql`
    insert into audit_log.organization_members (organization_id, user_id, role)
    values (${largeId}, ${data.user?.id ?? ""}, 'admin')`;
  const every = `${DAYS * 24 * 60 * 60 / ENTRIES} seconds`;
  await insertEntries(sql, largeId, "2025-01-01", ENTRIES, { every });
  await runUpkeep(sql);
  const [revoked] = await addKeys(sql, largeId, 1);
  await revoke(sql, `${revoked?.apiKeyId}`);
  // New entries have numbers that other servers have not reached.
  await sql`do $$ begin for n in 1..5000 loop perform pg_current_xact_id(); commit; end loop; end $$`;
  const names = ["a", "b"];
  await write(sql, smallId, ...names);
  const cursor = await cursorOf(sql, smallId);
  const seals = await sealsOf(sql);
  assertEquals(seals.length, DAYS);
  return { stack, largeId, token, revoked, smallId, names, cursor, seals, person };
}

/** Makes keys, members and organizations. `change()` changes all of them, and returns who may read what then. */
async function addAccess(sql: Sql) {
  const [staying, leaving] = [await addOrganization(sql), await addOrganization(sql)];
  const closing = await addOrganization(sql);
  const [rotated, kept] = await addKeys(sql, staying.id, 2);
  const tokens: Record<string, string> = {
    ...{ revoked: staying.token, left: leaving.token },
    ...{ rotated: `${rotated?.token}`, kept: `${kept?.token}`, closed: closing.token },
  };
  await sql`
    insert into audit_log.organization_members (organization_id, user_id, role)
    values (${staying.id}, 'ada', 'admin'), (${staying.id}, 'bob', 'admin'), (${leaving.id}, 'bob', 'admin')`;
  await sql`update audit_log.organizations set hold_reason = 'Matter 6', keep_days = 7 where id = ${staying.id}`;
  const of = async (sql: Sql) => {
    const [row] = await sql`
      select array(
        select name from json_each_text(${JSON.stringify(tokens)}::text::json) as t (name, token)
        where audit_log.public_audit_log(encode(sha256(token::bytea), 'hex'), 'actions')::text::json ->> 'decision' <> 'unauthorized'
      ) as keys, array(
        select user_id from audit_log.organization_members where organization_id in (${staying.id}, ${leaving.id})
      ) as members, array(
        select concat_ws(' ', hold_reason, keep_days, case when closed_at is not null then 'closed' end) from audit_log.organizations
        where num_nonnulls(hold_reason, keep_days, closed_at) > 0 order by 1
      ) as settings, array(
        select code from audit_log.actions join audit_log.organizations on logs_key_events
        where code = 'api_key_created'
      ) as "logsKeys"`;
    return { ...row };
  };
  const change = async () => {
    const keys = Object.keys(tokens);
    const settings = ["Matter 6 7"];
    assertEquals(await of(sql), { keys, members: ["ada", "bob", "bob"], settings, logsKeys: [] });
    await revoke(sql, staying.apiKeyId);
    const rotation = `rotate_api_key('${staying.id}', '${rotated?.apiKeyId}', '0')`;
    tokens["successor"] = (await callAs<{ token: string }>(sql, "ada", rotation)).token;
    await sql`delete from audit_log.organization_members where user_id = 'bob'`;
    const reason = "Matter 7's \\ files\nand more";
    await sql`update audit_log.organizations set hold_reason = ${reason}, keep_days = null where id = ${staying.id}`;
    await sql`delete from audit_log.organizations where id = ${leaving.id}`;
    await sql`select audit_log_private.close_organization(${closing.id}::text)`;
    await sql`update audit_log.organizations set logs_key_events = true where id = ${staying.id}`;
    tokens["newcomer"] = (await addOrganization(sql)).token;
    const changed = await of(sql);
    assertEquals(changed, {
      ...{ keys: ["kept", "successor", "newcomer"], members: ["ada"] },
      ...{ settings: ["closed", reason], logsKeys: ["api_key_created"] },
    });
    return changed;
  };
  return { of, change };
}

async function sealsOf(sql: Sql): Promise<string[]> {
  return await valueOf(sql`
    select array_agg(seal order by organization_id, sequence) from audit_log_private.seals`);
}

/** Asserts that nobody can follow a dump that is loaded into a cluster with fewer transactions. */
async function assertNotFollowed(sql: Sql, { smallId, cursor }: Log): Promise<void> {
  for (const after of ["beginning", cursor]) {
    assertEquals(await codeOf(read(sql, smallId, after)), "55000");
  }
}

/** Finishes a restore as documented. Asserts that nothing is missing, counted or shown twice, or altered. */
async function assertRestored(sql: Sql, log: Log): Promise<void> {
  const statements = await commandsOf("After every restore", "sql");
  await sql.unsafe(statements.find((text) => text.includes("adopt_restored_log")) ?? "");

  for (const id of [log.largeId, log.smallId]) assertEquals(await countMismatches(sql, id), []);
  assertEquals(await read(sql, log.smallId, log.cursor), null);
  await assertExact(sql, log.smallId, log.names);
  assertEquals(await follow(sql, log.largeId), { shown: ENTRIES, total: ENTRIES });

  assertEquals(await sealsOf(sql), log.seals);
  // Compares all days with their seals, and adds a seal for one more entry.
  await insertEntry(sql, log.largeId, { created_at: "2025-01-01T12:00Z" });
  await checkSeals(sql, log.largeId);
  const [row] = await sql`
    select concat_ws(' ', h -> 'unsealed_since', h -> 'altered_days', h -> 'miscounted_days', h -> 'is_adopted') as health,
      concat_ws(' ', added, removed, entries) as last
    from audit_log_private.seals, to_jsonb(audit_log_private.health()) as h
    where organization_id = ${log.largeId} order by sequence desc limit 1`;
  const last = `1 0 ${ENTRIES / DAYS + 1}`;
  assertEquals({ ...row }, { health: "null [] [] true", last });
}

/** Asserts that keys and passwords work in the stack that took over a log, unless they had ended. */
async function assertAnswers(stack: TemporaryStack, log: Log): Promise<void> {
  const get = async (token: string, query: string) => {
    const { body } = await ask(stack, token, `?start=2025-01-01&end=2025-01-30&${query}`);
    return body.total ?? body.code;
  };
  assertEquals(await get(log.token, `limit=1&offset=${ENTRIES - 1}`), ENTRIES + 1);
  assertEquals(await get(log.token, `after=${log.cursor}`), "invalid_parameters");
  assertEquals(await get(`${log.revoked?.token}`, "limit=1"), "unauthorized");
  const { error } = await auth(stack).signInWithPassword(log.person);
  assertEquals(error, null);
}

function auth({ apiUrl, publishableKey }: TemporaryStack) {
  const options = { auth: { persistSession: false, autoRefreshToken: false } };
  return createClient(apiUrl, publishableKey, options).auth;
}

async function follow(sql: Sql, id: string) {
  const ids = new Set<string>();
  for (let after = "beginning";;) {
    const page = await read(sql, id, after);
    if (!page?.items.length) return { shown: ids.size, total: page?.total };
    for (const item of page.items) ids.add(item.id);
    after = page.cursor;
  }
}

async function commandsOf(heading: string, language = "bash"): Promise<string[]> {
  const page = await Deno.readTextFile(new URL("../../docs/restoring.md", import.meta.url));
  const [, section = ""] = page.split(new RegExp(`^#+ ${heading}$`, "m"));
  const [text = ""] = section.split(/^#/m);
  const blocks = text.matchAll(new RegExp(`^\`\`\`${language}\n([^]*?)^\`\`\`$`, "gm"));
  return Array.from(blocks, ([, block = ""]) => block);
}

/** Makes a folder for commands, which get some programs and the addresses of the old and the new database. */
async function newShell(
  programs: string,
  [OLD_DB_URL = "", NEW_DB_URL = ""]: string[],
  more: Record<string, string> = {},
) {
  const folder = await cluster.newFolder();
  const env = { ...more, OLD_DB_URL, NEW_DB_URL, PATH: `${programs}:${Deno.env.get("PATH")}` };
  return {
    folder,
    run: (script: string) => cluster.runAsPostgres(script, { cwd: folder, env }),
    [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }),
  };
}
