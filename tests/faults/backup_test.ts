import { createClient } from "@supabase/supabase-js";
import { assertEquals, assertMatch } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { join } from "node:path";
import postgres from "postgres";
import { freePort } from "../../local/free_port.ts";
import {
  databaseUrl,
  majorVersion,
  type PostgresOptions,
  startPostgres,
  stopPostgres,
} from "../../local/postgres.ts";
import { startTemporaryStack, type TemporaryStack } from "../../local/temporary_stack.ts";
import { runUpkeep } from "../../local/upkeep.ts";
import { type Ended, runProgram } from "../run_program.ts";
import { findPostgres } from "./find_postgres.ts";

// The section of docs/operating.md on backups, followed with the real programs.

/** Where the service's tables and functions are. */
const SCHEMAS = ["audit_log", "audit_log_private"];

/** So many that statistics and batches matter. */
const ENTRIES = 300_000;
const DAYS = 30;

const NOBODY = 65534;

const version = await majorVersion(Deno.env.get("POSTGRES_PROGRAMS"));
/** What hosted projects of this version are upgraded to. */
const newer = version < 17 ? 17 : 18;
const [programs, newerPrograms] = [await findPostgres(version), await findPostgres(newer)];

if (programs) {
  describe("docs/operating.md, followed with the real programs,", () => test(programs));
} else {
  console.log(`backup_test.ts is not run: ${missing(version)}`);
}

function missing(version: number): string {
  return `no Postgres ${version} on the PATH or in POSTGRES_${version}_BIN`;
}

function test(programs: string) {
  const made = makeLog();
  afterAll(async () => await (await made)[Symbol.asyncDispose]());

  it("moves a log to another project: a dump of the data", async () => {
    const log = await made;
    await using other = await startTemporaryStack();
    await using folder = await newFolder();
    const [, dump = "", load = ""] = await commandsOf("A dump of the data");
    const shell = { programs, folder, OLD: log.stack.databaseUrl, NEW: other.databaseUrl };

    // A dump of all schemas cannot be loaded, and nothing of it remains.
    await run(`pg_dump "$OLD" --data-only --file=data.sql`, shell);
    const failed = await tryToRun(load, shell);
    assertMatch(failed.stderr, /duplicate key value .*"schema_migrations_pkey"/);
    await using restored = connect(other.postgres);
    const { sql } = restored;
    const [before] = await sql`
      select (select count(*)::int from audit_entries) as entries, health() ->> 'is_adopted' as "isAdopted"`;
    assertEquals({ ...before }, { entries: 0, isAdopted: "true" });

    assertMatch((await run(dump, shell)).stdout, /dump complete/);
    assertMatch((await run(load, shell)).stdout, /\(0 rows\)\n*$/);
    await assertRestored(sql, log);
    await assertAnswers(other, log);
  });

  it("restores a dump of everything in another cluster", async () => {
    const log = await made;
    await using folder = await newFolder();
    const [dump = "", load = ""] = await commandsOf("A dump of everything");
    const options = { ...log.stack.postgres, port: freePort(), dataDir: join(folder.path, "new") };
    await startPostgres(options);
    await using restored = connect(options);

    const shell = { programs, folder, OLD: adminUrl(log.stack.postgres), NEW: adminUrl(options) };
    await run(dump, shell);
    const { stdout, stderr } = await run(load, shell);
    assertMatch(stdout, /\(0 rows\)\n*$/);
    assertEquals(stderr.match(/ERROR: .*/g), ['ERROR:  role "supabase_admin" already exists']);
    await assertRestored(restored.sql, log);
  });

  it("brings a server back to a point in time", async () => {
    const log = await made;
    const { postgres: options } = log.stack;
    await using folder = await newFolder();
    const [backup = "", restore = ""] = (await commandsOf("A base backup and a point in time"))
      .map((text) => text.replaceAll("/backup", folder.path));
    const shell = { programs, folder, OLD: adminUrl(options) };
    await run("mkdir wal", shell);
    await using original = await archive(options, folder.path);
    await run(backup, shell);
    const { sql } = original;
    const [row] = await sql`insert into organizations (name) values ('Restored') returning id`;
    const smallId = row?.["id"];
    await write(sql, smallId, "in time");
    const [moment] = await sql`select clock_timestamp()::text as now`;
    await write(sql, smallId, "too late");
    const cursor = await cursorOf(sql, smallId);
    await sql`select pg_switch_wal()`;

    const copy = { ...options, port: freePort(), dataDir: join(folder.path, "restored") };
    const settings = `port = ${copy.port}\nunix_socket_directories = ''`;
    const command = restore.replace(
      /(recovery_target_time = ').*'/,
      `$1${moment?.["now"]}'\n${settings}`,
    );
    await run(command, shell);
    await using restored = connect(copy);
    while ((await restored.sql`select pg_is_in_recovery() as reads`)[0]?.["reads"]);
    await assertRestored(restored.sql, { ...log, smallId, names: ["in time"], cursor });
  });

  if (newer === version) return;
  const upgrade = `takes the log to Postgres ${newer} with pg_upgrade`;
  if (!newerPrograms) {
    console.log(
      `"${upgrade}" is not run: no Postgres ${newer} on the PATH or in POSTGRES_${newer}_BIN`,
    );
    return;
  }
  it(upgrade, async () => {
    const log = await made;
    const { postgres: options } = log.stack;
    await using folder = await newFolder();
    const shell = { programs: newerPrograms, folder, PGPASSWORD: options.adminPassword };
    await stopPostgres(options.dataDir);
    const copied = await runProgram("cp", {
      args: ["-a", options.dataDir, join(folder.path, "old")],
    });
    await startPostgres(options);
    assertEquals(copied.stderr, "");
    await run(
      `initdb --pgdata=new --username=supabase_admin ${newer < 18 ? "" : "--no-data-checksums"}
      pg_upgrade --old-bindir="${programs}" --new-bindir="${newerPrograms}" --old-datadir=old --new-datadir=new \
        --username=supabase_admin`,
      shell,
    );
    const upgraded = {
      ...options,
      programs: newerPrograms,
      port: freePort(),
      dataDir: join(folder.path, "new"),
    };
    await startPostgres(upgraded);
    await using restored = connect(upgraded);
    await restored.sql`analyze`;
    await assertRestored(restored.sql, log);
  });
}

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
  seals: postgres.Row[];
  person: { email: string; password: string };
}

/** Starts a stack and fills its log: entries, counts, seals, keys, accounts and cursors. */
async function makeLog(): Promise<Log> {
  await using started = new AsyncDisposableStack();
  const stack = started.use(await startTemporaryStack());
  await using connection = connect(stack.postgres);
  const { sql } = connection;
  const person = { email: "ada@example.com", password: crypto.randomUUID() };
  const { data, error } = await auth(stack).signUp(person);
  if (error) throw error;

  const [largeId = "", smallId = ""] = (await sql`
    insert into organizations (name) values ('Large'), ('Small') returning id`).map(({ id }) => id);
  await sql`
    insert into organization_members (organization_id, user_id, role)
    values (${largeId}, ${data.user?.id ?? ""}, 'admin')`;
  await sql`
    insert into audit_entries (organization_id, created_at, action, user_email, agent_name, data)
    select ${largeId}, timestamptz '2025-01-01Z' + n * interval '1 day' * ${DAYS} / ${ENTRIES}::int, 'feedback_given',
      'ada@example.com', 'Assistant', jsonb_build_object('n', n)
    from generate_series(0, ${ENTRIES}::int - 1) as n`;
  await runUpkeep(stack.databaseUrl);
  const keys = await sql`
    select insert_api_key(${largeId}, name) as key from unnest('{reader,revoked}'::text[]) as name`;
  const [token, revokedToken] = keys.map(({ key }) => key.token);
  await sql`update api_keys set revoked_at = now() where id = ${keys[1]?.["key"].id}`;
  await write(sql, smallId, "a", "b");

  const cursor = await cursorOf(sql, smallId);
  const seals = await sql`select * from seals order by organization_id, sequence`;
  assertEquals(seals.length, DAYS);
  const running = started.move();
  return {
    ...{ stack, largeId, token, revokedToken, smallId, names: ["a", "b"], cursor, seals, person },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}

/** Finishes a restore as documented, and asserts that nothing is missing, counted twice, shown twice or altered. */
async function assertRestored(sql: postgres.Sql, log: Log): Promise<void> {
  const [statement = ""] = await commandsOf("After every restore", "sql");
  await sql.unsafe(statement);

  const mismatches =
    await sql`select o.id, m.* from organizations o, entry_count_mismatches(o.id) m`;
  assertEquals([...mismatches], []);
  assertEquals(await read(sql, log.smallId, log.cursor), null);
  const all = await read(sql, log.smallId, "beginning");
  assertEquals(all?.names, log.names);
  await write(sql, log.smallId, "new 1", "new 2");
  assertEquals((await read(sql, log.smallId, all?.next ?? ""))?.names, ["new 1", "new 2"]);
  assertEquals(await follow(sql, log.largeId), { shown: ENTRIES, total: ENTRIES });

  const seals = await sql`select * from seals order by organization_id, sequence`;
  assertEquals(seals.map(({ seal }) => seal), log.seals.map(({ seal }) => seal));
  // Compares all days with their seals, and one more entry makes one more seal.
  await sql`update sealed_days set checked_at = checked_at - interval '31 days'`;
  await sql`
    insert into audit_entries (organization_id, created_at, action, user_email, agent_name)
    values (${log.largeId}, '2025-01-01T12:00Z', 'agent_added', 'ada@example.com', 'late')`;
  await sql`do $$ begin while run_upkeep() loop commit; end loop; end $$`;
  const [row] = await sql`
    select health()::jsonb - 'last_upkeep_at' as health, (
      select row_to_json(s) from (
        select added, removed, entries from seals where organization_id = ${log.largeId}
        order by sequence desc limit 1
      ) as s
    ) as last`;
  assertEquals({ ...row }, {
    health: { oldest_unsealed_day: null, altered_days: [], miscounted_days: [], is_adopted: true },
    last: { added: 1, removed: 0, entries: ENTRIES / DAYS + 1 },
  });
}

/** Asserts that keys and passwords are good for the stack that took over a log, or not any more. */
async function assertAnswers(stack: TemporaryStack, log: Log): Promise<void> {
  const get = async (token: string, query: string) => {
    const url =
      `${stack.apiUrl}/functions/v1/public-audit-log?start=2025-01-01&end=2025-01-30&${query}`;
    const response = await fetch(url, { headers: { Authorization: `Bearer ${token}` } });
    const { total, code } = await response.json();
    return total ?? code;
  };
  assertEquals(await get(log.token, "limit=1&offset=299999"), ENTRIES + 1);
  assertEquals(await get(log.token, `after=${log.cursor}`), "invalid_parameters");
  assertEquals(await get(log.revokedToken, "limit=1"), "unauthorized");
  const { error } = await auth(stack).signInWithPassword(log.person);
  assertEquals(error, null);
}

function auth({ apiUrl, publishableKey }: TemporaryStack) {
  const options = { auth: { persistSession: false, autoRefreshToken: false } };
  return createClient(apiUrl, publishableKey, options).auth;
}

async function write(sql: postgres.Sql, id: string, ...names: string[]): Promise<void> {
  for (const name of names) {
    await sql`
      insert into audit_entries (organization_id, action, user_email, agent_name)
      values (${id}, 'agent_added', 'ada@example.com', ${name})`;
  }
}

/** Asks the feed; null when the cursor is refused. */
async function read(sql: postgres.Sql, id: string, after: string) {
  const [row] = await sql`
    select page::json from read_feed(
      ${id}, ('0001-01-01', '9999-12-31', null, null, 1000, null, null, ${after})::page_query
    )`;
  if (!row?.["page"]) return null;
  const { items, next, total }: Page = row["page"];
  return { items, names: items.map((item) => item.agent_name).toSorted(), next, total };
}

interface Page {
  items: { id: string; agent_name: string }[];
  next: string;
  total: number;
}

async function cursorOf(sql: postgres.Sql, id: string): Promise<string> {
  return (await read(sql, id, "beginning"))?.next ?? "";
}

/** How many different entries a reader is shown who follows from the beginning, and the total. */
async function follow(sql: postgres.Sql, id: string) {
  const ids = new Set<string>();
  for (let after = "beginning";;) {
    const page = await read(sql, id, after);
    if (!page?.items.length) return { shown: ids.size, total: page?.total };
    for (const item of page.items) ids.add(item.id);
    after = page.next;
  }
}

/** Connects as the superuser, to the tables and functions of the service. */
function connect(options: PostgresOptions) {
  const sql = postgres(adminUrl(options), {
    onnotice: () => {},
    connection: { search_path: SCHEMAS.join() },
  });
  return { sql, [Symbol.asyncDispose]: () => sql.end({ timeout: 5 }) };
}

function adminUrl({ port, adminPassword }: PostgresOptions): string {
  return databaseUrl(port, "supabase_admin", adminPassword);
}

/** The commands under a heading of the page, without those that a person has to fill in. */
async function commandsOf(heading: string, language = "bash"): Promise<string[]> {
  const page = await Deno.readTextFile(new URL("../../docs/operating.md", import.meta.url));
  const [, section = ""] = page.split(new RegExp(`^#+ ${heading}$`, "m"));
  const [text = ""] = section.split(/^#/m);
  return Array.from(
    text.matchAll(new RegExp(`^\`\`\`${language}\n([^]*?)^\`\`\`$`, "gm")),
    ([, block = ""]) => block,
  );
}

/** Gives a server the settings that the page shows for the archive, and takes them back in the end. */
async function archive(options: PostgresOptions, folder: string) {
  const connection = connect(options);
  const [text = ""] = await commandsOf("A base backup and a point in time", "text");
  const settings = text.replaceAll("/backup", folder).trim().split("\n");
  const set = async (statements: string[]) => {
    for (const statement of statements) await connection.sql.unsafe(statement);
    await stopPostgres(options.dataDir);
    await startPostgres(options);
  };
  await set(settings.map((setting) => `alter system set ${setting}`));
  return {
    sql: connection.sql,
    async [Symbol.asyncDispose]() {
      await set(["alter system reset archive_mode", "alter system reset archive_command"]);
      await connection[Symbol.asyncDispose]();
    },
  };
}

/** A folder in which the servers' user may write. */
async function newFolder() {
  const path = await Deno.makeTempDir({ prefix: "public_audit_log_backup_" });
  if (Deno.uid() === 0) await Deno.chown(path, NOBODY, NOBODY);
  return {
    path,
    async [Symbol.asyncDispose]() {
      // A server that a command has started, or a test.
      for (const name of ["new", "restored"]) await stopPostgres(join(path, name), "immediate");
      await Deno.remove(path, { recursive: true });
    },
  };
}

/** Where to run commands, with which programs and variables. */
interface Shell {
  programs: string;
  folder: { path: string };
  [variable: string]: string | { path: string };
}

/** Runs commands of the page; they must succeed. */
async function run(commands: string, shell: Shell): Promise<Ended> {
  const ended = await tryToRun(commands, shell);
  if (ended.code === 0) return ended;
  throw new Error(`failed: ${commands}\n${ended.stdout}${ended.stderr}`);
}

async function tryToRun(commands: string, shell: Shell): Promise<Ended> {
  const { programs, folder, ...variables } = shell;
  const bash = ["bash", "-euo", "pipefail", "-c", commands];
  // As root, Postgres does not run.
  const user = Deno.uid() === 0
    ? ["setpriv", `--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups"]
    : [];
  const [program = "", ...args] = [...user, ...bash];
  return await runProgram(program, {
    args,
    cwd: folder.path,
    env: { ...variables, PATH: `${programs}:${Deno.env.get("PATH")}` } as Record<string, string>,
    stdin: "null",
  });
}
