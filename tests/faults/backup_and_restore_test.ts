import { createClient } from "@supabase/supabase-js";
import { assertEquals, assertMatch } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { join } from "node:path";
import { freePort } from "../../local/free_port.ts";
import {
  majorVersion,
  type PostgresOptions,
  startPostgres,
  stopPostgres,
} from "../../local/postgres.ts";
import { startTemporaryStack, type TemporaryStack } from "../../local/temporary_stack.ts";
import type { Ended } from "../run_program.ts";
import * as cluster from "./cluster.ts";
import {
  ask,
  assertExact,
  cursorOf,
  read,
  revoke,
  scrub,
  spendTransactions,
  write,
} from "./log.ts";
import {
  addKeys,
  addOrganization,
  codeOf,
  countMismatches,
  insertEntries,
  insertEntry,
  runUpkeep,
  type Sql,
} from "../project.ts";

/** So many that statistics and batches matter. */
const ENTRIES = 150_000;
const DAYS = Array.from({ length: 30 }, (_, n) => `2025-01-${String(n + 1).padStart(2, "0")}`);

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
    await using shell = await newShell(programs, {
      OLD_DB_URL: log.stack.databaseUrl,
      NEW_DB_URL: other.databaseUrl,
    });
    const [dump = "", load = ""] = await commandsOf("A dump of the data");
    assertMatch((await shell.run(dump)).stdout, /dump complete/);
    assertMatch((await shell.run(load)).stdout, /\(0 rows\)\n*$/);
    await using sql = cluster.connect(other.postgres);
    await assertNotFollowed(sql, log);
    await assertRestored(sql, log);
    await assertAnswers(other, log);
  });

  withLog("restores a dump of everything in another cluster", async (log) => {
    const { postgres: options } = log.stack;
    const target = { ...options, port: freePort() };
    await using shell = await newShell(programs, {
      OLD_DB_URL: cluster.adminUrl(options),
      NEW_DB_URL: cluster.adminUrl(target),
    });
    const dataDir = join(shell.folder, "new");
    await using restored = await cluster.startCluster({ ...target, dataDir });
    const [dump = "", load = ""] = await commandsOf("A dump of everything");
    await shell.run(dump);
    const { stdout, stderr } = await shell.run(load);
    assertMatch(stdout, /\(0 rows\)\n*$/);
    assertEquals(stderr.match(/ERROR: .*/g), ['ERROR:  role "supabase_admin" already exists']);
    await assertNotFollowed(restored.sql, log);
    await assertRestored(restored.sql, log);
  });

  withLog("brings a server back to a point in time, and no revoked key", async (log) => {
    const { postgres: options } = log.stack;
    const target = { ...options, port: freePort() };
    await using shell = await newShell(programs, {
      OLD_DB_URL: cluster.adminUrl(options),
      NEW_DB_URL: cluster.adminUrl(target),
    });
    const [backup = "", restore = ""] = (await commandsOf("A base backup and a point in time"))
      .map((text) => text.replaceAll("/backup", shell.folder));
    await shell.run("mkdir wal");
    await using original = await archive(options, shell.folder);
    await shell.run(backup);
    const { sql } = original;
    const { id: smallId } = await addOrganization(sql);
    await write(sql, smallId, "in time");
    const access = await addAccess(sql);
    const [moment] = await sql`select clock_timestamp()::text as now`;
    await write(sql, smallId, "too late");
    const cursor = await cursorOf(sql, smallId);
    const expected = await access.change();
    const [, keep = ""] = await commandsOf("Before every restore");
    assertMatch((await shell.run(keep)).stdout, /dump complete/);
    await sql`select pg_switch_wal()`;

    const copy = { ...target, dataDir: join(shell.folder, "restored") };
    const settings = `port = ${copy.port}\nunix_socket_directories = ''`;
    const until = `$1${moment?.["now"]}'\n${settings}`;
    await shell.run(restore.replace(/(recovery_target_time = ').*'/, until));
    await using restored = cluster.attach(copy);
    await cluster.isPromoted(restored.sql);
    const [finish = ""] = await commandsOf("After every restore");
    await shell.run(finish);
    assertEquals(await access.of(restored.sql), expected);
    await assertRestored(restored.sql, { ...log, smallId, names: ["in time"], cursor });
  });

  withLog(`takes the log to Postgres ${newer} with pg_upgrade`, async (log) => {
    const old = await cluster.snapshot(log.stack.postgres);
    await using shell = await newShell(newerPrograms, { PGPASSWORD: old.adminPassword });
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
  for (const day of DAYS) await insertEntries(sql, largeId, day, ENTRIES / DAYS.length);
  await runUpkeep(sql);
  const [revoked] = await addKeys(sql, largeId, 1);
  const revokedToken = revoked?.token ?? "";
  await revoke(sql, revokedToken);
  await spendTransactions(sql);
  const names = ["a", "b"];
  await write(sql, smallId, ...names);
  const cursor = await cursorOf(sql, smallId);
  const seals = await sealsOf(sql);
  assertEquals(seals.length, DAYS.length);
  return { stack, largeId, token, revokedToken, smallId, names, cursor, seals, person };
}

/** Keys, members and an organization; `change()` takes some away, and answers with who may read then. */
async function addAccess(sql: Sql) {
  const { id, token: revoked } = await addOrganization(sql);
  const [rotated, kept] = await addKeys(sql, id, 2);
  const { id: leavingId, token: left } = await addOrganization(sql);
  await sql`
    insert into audit_log.organization_members (organization_id, user_id, role)
    values (${id}, 'ada', 'admin'), (${id}, 'bob', 'admin'), (${leavingId}, 'bob', 'admin')`;
  const tokens = new Map([["revoked", revoked], ["left", left]])
    .set("rotated", rotated?.token ?? "").set("kept", kept?.token ?? "");
  const of = async (sql: Sql) => {
    const keys: string[] = [];
    for (const [name, token] of tokens) {
      const [row] = await sql`
        select audit_log.public_audit_log(encode(sha256(convert_to(${token}, 'UTF8')), 'hex'), 'actions')::text::json
          ->> 'decision' as decision`;
      if (row?.["decision"] !== "unauthorized") keys.push(name);
    }
    const [row] = await sql`
      select array(
        select user_id from audit_log.organization_members where organization_id in (${id}, ${leavingId})
      ) as members, array(select reason from audit_log_private.holds) as holds`;
    return { keys, ...row };
  };
  const change = async () => {
    assertEquals((await of(sql)).keys, ["revoked", "left", "rotated", "kept"]);
    await revoke(sql, revoked);
    await sql.begin(async (transaction) => {
      await transaction`select set_config('request.jwt.claims', '{"sub": "ada"}', true)`;
      const [row] = await transaction`
        select audit_log.rotate_api_key(${id}, ${
        rotated?.apiKeyId ?? ""
      }, '0') ->> 'token' as token`;
      tokens.set("successor", row?.["token"]);
    });
    await sql`delete from audit_log.organization_members where user_id = 'bob'`;
    await sql`select audit_log_private.hold(${id}, 'Matter 7', 'Grace')`;
    await sql`delete from audit_log.organizations where id = ${leavingId}`;
    tokens.set("newcomer", (await addOrganization(sql)).token);
    const keys = ["kept", "successor", "newcomer"];
    assertEquals(await of(sql), { keys, members: ["ada"], holds: ["Matter 7"] });
    return await of(sql);
  };
  return { of, change };
}

async function sealsOf(sql: Sql): Promise<string[]> {
  const rows = await sql`
    select seal from audit_log_private.seals order by organization_id, sequence`;
  return rows.map(({ seal }) => seal);
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
  await scrub(sql);
  const [row] = await sql`
    select concat_ws(' ', h -> 'oldest_unsealed_day', h -> 'altered_days', h -> 'miscounted_days', h -> 'is_adopted') as health,
      concat_ws(' ', added, removed, entries) as last
    from audit_log_private.seals, to_jsonb(audit_log_private.health()) as h
    where organization_id = ${log.largeId} order by sequence desc limit 1`;
  const last = `1 0 ${ENTRIES / DAYS.length + 1}`;
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
  assertEquals(await get(log.revokedToken, "limit=1"), "unauthorized");
  const { error } = await auth(stack).signInWithPassword(log.person);
  assertEquals(error, null);
}

function auth({ apiUrl, publishableKey }: TemporaryStack) {
  const options = { auth: { persistSession: false, autoRefreshToken: false } };
  return createClient(apiUrl, publishableKey, options).auth;
}

/** Counts the different entries that a reader gets who follows from the beginning. */
async function follow(sql: Sql, id: string) {
  const ids = new Set<string>();
  for (let after = "beginning";;) {
    const page = await read(sql, id, after);
    if (!page?.items.length) return { shown: ids.size, total: page?.total };
    for (const item of page.items) ids.add(item.id);
    after = page.next;
  }
}

/** The commands under a heading of the page. */
async function commandsOf(heading: string, language = "bash"): Promise<string[]> {
  const page = await Deno.readTextFile(new URL("../../docs/restoring.md", import.meta.url));
  const [, section = ""] = page.split(new RegExp(`^#+ ${heading}$`, "m"));
  const [text = ""] = section.split(/^#/m);
  const blocks = text.matchAll(new RegExp(`^\`\`\`${language}\n([^]*?)^\`\`\`$`, "gm"));
  return Array.from(blocks, ([, block = ""]) => block);
}

/** Gives a server the page's settings for the archive, and takes them back in the end. */
async function archive(options: PostgresOptions, folder: string) {
  const sql = cluster.connect(options);
  const [text = ""] = await commandsOf("A base backup and a point in time", "text");
  const settings = text.replaceAll("/backup", folder).trim().split("\n");
  const change = async (...changes: string[]) => {
    for (const each of changes) await sql.unsafe(`alter system ${each}`);
    await stopPostgres(options.dataDir);
    await startPostgres(options);
  };
  await change(...settings.map((setting) => `set ${setting}`));
  return {
    sql,
    async [Symbol.asyncDispose]() {
      await change("reset archive_mode", "reset archive_command");
      await sql[Symbol.asyncDispose]();
    },
  };
}

/** Makes a shell in a folder of its own, with some programs and variables. Its commands must succeed. */
async function newShell(programs: string, variables: Record<string, string>) {
  const folder = await cluster.newFolder();
  return {
    folder,
    async run(commands: string): Promise<Ended> {
      const ended = await cluster.runAsPostgres(["bash", "-euo", "pipefail", "-c", commands], {
        cwd: folder,
        env: { ...variables, PATH: `${programs}:${Deno.env.get("PATH")}` },
        stdin: "null",
      });
      if (ended.code === 0) return ended;
      throw new Error(`failed: ${commands}\n${ended.stdout}${ended.stderr}`);
    },
    [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }),
  };
}
