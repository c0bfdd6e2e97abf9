// Needs stacks of its own. Slow.

import { assertEquals } from "@std/assert";
import { it } from "@std/testing/bdd";
import { basename, dirname, join } from "node:path";
import { supabase } from "../../dev/local/supabase_cli.ts";
import { startTemporaryStack } from "../../dev/local/temporary_stack.ts";
import { firstMigrations, releasedMigrations } from "../../dev/tasks/migration.ts";
import { ROOT, runProgram } from "../helpers/run_program.ts";
import { connect } from "../helpers/cluster.ts";

/** Finds a Postgres that has plpgsql_check, or installs Debian's if this process may. */
async function findPrograms(): Promise<string> {
  const find = "ls /usr/lib/postgresql/*/lib/plpgsql_check.so";
  const names = "apt-cache pkgnames postgresql- | grep -x 'postgresql-[0-9]*-plpgsql-check'";
  const install =
    `apt-get update && apt-get install -y --no-install-recommends $(${names} | sort | tail -1)`;
  const { stdout } = await runProgram("sh", {
    args: ["-c", `${find} || { ${Deno.uid() === 0 ? install : "false"}; } >&2 && ${find}`],
    env: { DEBIAN_FRONTEND: "noninteractive" },
  });
  const library = stdout.trim().split("\n").at(-1);
  return library ? join(dirname(library), "../bin") : "";
}

/** What it says of a function. */
type Finding = { function: string; issues: Record<"level" | "message", string>[] };

const FAULTS = `
  create function audit_log.misspells() returns void language plpgsql as $$
  begin
    perform e.actoin from audit_log.audit_entries e;
  end $$;
  create function audit_log_private.forgets() returns void language plpgsql as $$
  declare
    unused integer;
  begin
  end $$`;

const programs = await findPrograms();
if (!programs) console.log("There is no Postgres with Debian's postgresql-…-plpgsql-check");

// plpgsql looks at a statement when it first runs. plpgsql_check looks at all of them.
(programs ? it : it.skip)(
  "supabase db lint finds no fault in our functions but two that are planted",
  async () => {
    await using stack = await startTemporaryStack({ server: { programs } });
    await using admin = connect(stack.postgres, { max: 1 });
    await admin.unsafe(`create extension plpgsql_check; ${FAULTS}`);
    const schemas = "--schema=audit_log,audit_log_private";
    const remote = `--remote=${stack.databaseUrl}`;
    const found: Finding[] = JSON.parse(
      await supabase("db", "lint", "--level=warning", schemas, remote),
    );
    const lines = found.flatMap(({ function: name, issues }) =>
      issues.map(({ level, message }) => `${name}: ${level}: ${message}`)
    );
    assertEquals(lines, [
      "audit_log.misspells: error: column e.actoin does not exist",
      'audit_log_private.forgets: warning: unused variable "unused"',
    ]);
    // The CLI passes over the functions of triggers.
    const ofTriggers = await admin`
      select t.tgrelid::regclass, t.tgname, problem
      from pg_trigger t join pg_class c on c.oid = t.tgrelid, plpgsql_check_function(
        t.tgfoid, t.tgrelid, oldtable => t.tgoldtable, newtable => t.tgnewtable
      ) as problem
      where c.relnamespace in ('audit_log'::regnamespace, 'audit_log_private'::regnamespace)
        and not t.tgisinternal`;
    assertEquals([...ofTriggers], []);
  },
);

const PLANTED = `set lock_timeout = '2s';
alter table audit_log_private.api_keys add column seen_at timestamptz;
alter table audit_log_private.api_keys add column note text not null;
create index agent_idx on audit_log.audit_entries (agent_name);
`;

// It says which statements would lock a running database for long, or break what uses it. A person who has read one writes
// `-- squawk-ignore` and the rule above it.
it("squawk finds nothing in a migration that no release has frozen, after the first ones, but finds what is planted", async () => {
  const passed = [...releasedMigrations(), ...Object.keys(firstMigrations([]))];
  const folder = join(ROOT, "supabase/migrations");
  const files = Array.from(Deno.readDirSync(folder), ({ name }) => name)
    .filter((file) => !passed.includes(file)).map((file) => join(folder, file));
  const planted = await Deno.makeTempFile({ suffix: ".sql" });
  await Deno.writeTextFile(planted, PLANTED);
  const { stdout } = await runProgram("npx", {
    args: [
      ...["--yes", "squawk-cli@2.66.0", "--assume-in-transaction", "--pg-version=15.0"],
      // Hosted projects have a statement_timeout. Counts of a day fit into an integer.
      ...["--exclude=require-statement-timeout,prefer-bigint-over-int", "--reporter=gcc"],
      ...files,
      planted,
    ],
  });
  await Deno.remove(planted);
  const found = stdout.trim().split("\n");
  assertEquals(found.map((line) => line.match(/(\w+\.sql:\d+):\d+: warning: (\S+)/)?.slice(1)), [
    [`${basename(planted)}:2`, "adding-required-field"],
    [`${basename(planted)}:3`, "require-concurrent-index-creation"],
  ]);
});
