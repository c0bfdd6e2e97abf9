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
import { ask, assertExact, cursorOf, read, revoke, scrub, write } from "./log.ts";
import {
  addKeys,
  addOrganization,
  countMismatches,
  insertEntry,
  runUpkeep,
  type Sql,
} from "../project.ts";

// Follows the section of docs/operating.md on backups with the real programs.

/** So many that statistics and batches matter. */
const ENTRIES = 150_000;
const DAYS = 30;

const version = await majorVersion(Deno.env.get("POSTGRES_PROGRAMS"));
/** What hosted projects of this version are upgraded to. */
const newer = version < 17 ? 17 : 18;
const programs = await cluster.findPostgres(version) ?? "";
const newerPrograms = programs && newer !== version ? await cluster.findPostgres(newer) ?? "" : "";

const log = programs ? await makeLog() : undefined;
afterAll(async () => await log?.[Symbol.asyncDispose]());
/** Runs a test with the log, or skips it where programs are missing. */
const withLog = (name: string, run: (log: Log) => Promise<void>, isPossible = true) =>
  log && isPossible ? it(name, () => run(log)) : it.skip(name, () => {});

describe("docs/operating.md, followed with the real programs,", () => {
  withLog("moves a log to another project: a dump of the data", async (log) => {
    await using other = await startTemporaryStack();
    await using shell = await newShell(programs, {
      OLD_DB_URL: log.stack.databaseUrl,
      NEW_DB_URL: other.databaseUrl,
    });
    const [dump = "", load = ""] = await commandsOf("A dump of the data");

    // A dump of all schemas cannot be loaded, and nothing of it remains.
    await shell.run(`pg_dump "$OLD_DB_URL" --data-only --file=data.sql`);
    const failed = await shell.tryToRun(load);
    assertMatch(failed.stderr, /duplicate key value .*"schema_migrations_pkey"/);
    await using sql = cluster.connect(other.postgres);
    const [before] = await sql`
      select (select count(*)::int from audit_log.audit_entries) as entries,
        audit_log_private.health() ->> 'is_adopted' as "isAdopted"`;
    assertEquals({ ...before }, { entries: 0, isAdopted: "true" });

    assertMatch((await shell.run(dump)).stdout, /dump complete/);
    assertMatch((await shell.run(load)).stdout, /\(0 rows\)\n*$/);
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
    await assertRestored(restored.sql, log);
  });

  withLog(
    "brings a server back to a point in time, but not what was revoked since",
    async (log) => {
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
      const command = restore.replace(
        /(recovery_target_time = ').*'/,
        `$1${moment?.["now"]}'\n${settings}`,
      );
      await shell.run(command);
      await using restored = cluster.attach(copy);
      await cluster.isPromoted(restored.sql);
      const [finish = ""] = await commandsOf("After every restore");
      await shell.run(finish);
      assertEquals(await access.of(restored.sql), expected);
      await assertRestored(restored.sql, { ...log, smallId, names: ["in time"], cursor });
    },
  );

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

/** A log to restore, and what is known of it. */
interface Log extends AsyncDisposable {
  stack: TemporaryStack;
  /** An organization of very many entries, all of finished days. */
  largeId: string;
  token: string;
  revokedToken: string;
  /** One of a few, whose names these are. */
  smallId: string;
  names: string[];
  /** The small one's, after all there is. */
  cursor: string;
  seals: string[];
  person: { email: string; password: string };
}

/** Starts a stack and fills its log: entries, counts, seals, keys, accounts and cursors. */
async function makeLog(): Promise<Log> {
  const stack = await startTemporaryStack();
  await using sql = cluster.connect(stack.postgres);
  const person = { email: "ada@example.com", password: crypto.randomUUID() };
  const { data, error } = await auth(stack).signUp(person);
  if (error) throw error;

  const { id: largeId, token } = await addOrganization(sql);
  const { id: smallId } = await addOrganization(sql);
  await sql`
    insert into audit_log.organization_members (organization_id, user_id, role)
    values (${largeId}, ${data.user?.id ?? ""}, 'admin')`;
  await sql`
    insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name, data)
    select ${largeId}, timestamptz '2025-01-01Z' + n * interval '1 day' * ${DAYS} / ${ENTRIES}::int, 'feedback_given',
      'ada@example.com', 'Assistant', jsonb_build_object('n', n)
    from generate_series(0, ${ENTRIES}::int - 1) as n`;
  await runUpkeep(sql);
  const [revoked] = await addKeys(sql, largeId, 1);
  const revokedToken = revoked?.token ?? "";
  await revoke(sql, revokedToken);
  const names = ["a", "b"];
  await write(sql, smallId, ...names);
  const cursor = await cursorOf(sql, smallId);
  const seals = await sealsOf(sql);
  assertEquals(seals.length, DAYS);
  return {
    ...{ stack, largeId, token, revokedToken, smallId, names, cursor, seals, person },
    [Symbol.asyncDispose]: () => stack[Symbol.asyncDispose](),
  };
}

/** Adds keys, members and an organization; `change()` then takes some away, and answers with who may read. */
async function addAccess(sql: Sql) {
  const { id, token: revoked } = await addOrganization(sql);
  const [rotated, kept] = await addKeys(sql, id, 2);
  const { id: leavingId, token: left } = await addOrganization(sql);
  await sql`
    insert into audit_log.organization_members (organization_id, user_id, role)
    values (${id}, 'ada', 'admin'), (${id}, 'bob', 'admin'), (${leavingId}, 'bob', 'admin')`;
  const tokens: Record<string, string> = {
    ...{ revoked, rotated: rotated?.token ?? "", kept: kept?.token ?? "", left },
  };
  const of = async (sql: Sql) => {
    const keys: string[] = [];
    for (const [name, token] of Object.entries(tokens)) {
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
  return {
    of,
    async change() {
      assertEquals((await of(sql)).keys, ["revoked", "rotated", "kept", "left"]);
      await revoke(sql, revoked);
      await sql.begin(async (transaction) => {
        await transaction`select set_config('request.jwt.claims', '{"sub": "ada"}', true)`;
        const [row] = await transaction`
          select audit_log.rotate_api_key(${id}, ${
          rotated?.apiKeyId ?? ""
        }, '0') ->> 'token' as token`;
        tokens["successor"] = row?.["token"];
      });
      await sql`delete from audit_log.organization_members where user_id = 'bob'`;
      await sql`select audit_log_private.hold(${id}, 'Matter 7', 'Grace')`;
      await sql`delete from audit_log.organizations where id = ${leavingId}`;
      tokens["newcomer"] = (await addOrganization(sql)).token;
      const expected = { keys: ["kept", "successor", "newcomer"], members: ["ada"] };
      assertEquals(await of(sql), { ...expected, holds: ["Matter 7"] });
      return { ...expected, holds: ["Matter 7"] };
    },
  };
}

async function sealsOf(sql: Sql): Promise<string[]> {
  const rows = await sql`
    select seal from audit_log_private.seals order by organization_id, sequence`;
  return rows.map(({ seal }) => seal);
}

/** Finishes a restore as documented, and asserts that nothing is missing, counted twice, shown twice or altered. */
async function assertRestored(sql: Sql, log: Log): Promise<void> {
  const statements = await commandsOf("After every restore", "sql");
  await sql.unsafe(statements.find((text) => text.includes("adopt_restored_log")) ?? "");

  for (const id of [log.largeId, log.smallId]) assertEquals(await countMismatches(sql, id), []);
  assertEquals(await read(sql, log.smallId, log.cursor), null);
  await assertExact(sql, log.smallId, log.names);
  assertEquals(await follow(sql, log.largeId), { shown: ENTRIES, total: ENTRIES });

  assertEquals(await sealsOf(sql), log.seals);
  // Compares all days with their seals, and one more entry makes one more seal.
  await insertEntry(sql, log.largeId, { created_at: "2025-01-01T12:00Z" });
  await scrub(sql);
  const [row] = await sql`
    select audit_log_private.health()::jsonb - '{last_upkeep_at, holds}'::text[] as health, (
      select row_to_json(s) from (
        select added, removed, entries from audit_log_private.seals where organization_id = ${log.largeId}
        order by sequence desc limit 1
      ) as s
    ) as last`;
  const health = {
    oldest_unsealed_day: null,
    altered_days: [],
    miscounted_days: [],
    is_adopted: true,
  };
  const last = { added: 1, removed: 0, entries: ENTRIES / DAYS + 1 };
  assertEquals({ ...row }, { health, last });
}

/** Asserts that keys and passwords are good for the stack that took over a log, or not any more. */
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

/** How many different entries a reader is shown who follows from the beginning, and the total. */
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
  const page = await Deno.readTextFile(new URL("../../docs/operating.md", import.meta.url));
  const [, section = ""] = page.split(new RegExp(`^#+ ${heading}$`, "m"));
  const [text = ""] = section.split(/^#/m);
  const blocks = text.matchAll(new RegExp(`^\`\`\`${language}\n([^]*?)^\`\`\`$`, "gm"));
  return Array.from(blocks, ([, block = ""]) => block);
}

/** Gives a server the settings that the page shows for the archive, and takes them back in the end. */
async function archive(options: PostgresOptions, folder: string) {
  const sql = cluster.connect(options);
  const [text = ""] = await commandsOf("A base backup and a point in time", "text");
  const settings = text.replaceAll("/backup", folder).trim().split("\n");
  const set = async (statements: string[]) => {
    for (const statement of statements) await sql.unsafe(statement);
    await stopPostgres(options.dataDir);
    await startPostgres(options);
  };
  await set(settings.map((setting) => `alter system set ${setting}`));
  return {
    sql,
    async [Symbol.asyncDispose]() {
      await set(["alter system reset archive_mode", "alter system reset archive_command"]);
      await sql[Symbol.asyncDispose]();
    },
  };
}

/** Runs commands of the page in a folder of their own, with some programs and variables. */
async function newShell(programs: string, variables: Record<string, string>) {
  const folder = await cluster.newFolder();
  const tryToRun = (commands: string): Promise<Ended> =>
    cluster.runAsPostgres(["bash", "-euo", "pipefail", "-c", commands], {
      cwd: folder,
      env: { ...variables, PATH: `${programs}:${Deno.env.get("PATH")}` },
      stdin: "null",
    });
  return {
    folder,
    tryToRun,
    /** Runs commands that must succeed. */
    async run(commands: string): Promise<Ended> {
      const ended = await tryToRun(commands);
      if (ended.code === 0) return ended;
      throw new Error(`failed: ${commands}\n${ended.stdout}${ended.stderr}`);
    },
    [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }),
  };
}
