import { existsSync } from "node:fs";
import { parseArgs } from "node:util";
import { startTemporaryStack } from "../local/temporary_stack.ts";
import { installPostgres, POSTGRES_VERSIONS } from "./postgres/versions.ts";
import { exitWithCounts, runTests } from "./run_tests.ts";
import { parseOrPrintUsage } from "./usage.ts";

const FOLDERS = ["tests/pure", "tests/stack"];
/** Runs at the same time as FOLDERS, because it mostly waits for its own stacks to start. */
const BESIDE = "tests/local";
/** Tests for a hosted project. Attacks and faults only run against a local stack. */
const PROJECT_FOLDERS = ["tests/pure", "tests/stack", "tests/clients"];
/** These need no stack, or start their own. */
const WITHOUT_STACK = /^tests\/(pure|local|faults)/;

const USAGE = `Runs the tests of ${FOLDERS.join(", ")} and ${BESIDE}; or the files and folders given

  --postgres=VERSION  the stack's Postgres: ${POSTGRES_VERSIONS.join(", ")} (17)
  --filter=TEXT       only the groups and tests whose name has this text, without ${BESIDE} unless given
  -h, --help          prints this`;

const { given, options, postgres } = parseOrPrintUsage(USAGE, () => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      postgres: { type: "string" },
      filter: { type: "string" },
    },
  });
  const { postgres, filter } = values;
  if (postgres !== undefined && !POSTGRES_VERSIONS.includes(postgres)) {
    throw new RangeError(
      `--postgres=${postgres}: must be one of ${POSTGRES_VERSIONS.join(", ")}`,
    );
  }
  const missing = positionals.find((path) => !path.startsWith("tests") || !existsSync(path));
  if (missing !== undefined) throw new RangeError(`There is no test file or folder ${missing}`);
  const options = filter === undefined ? [] : [`--filter=${filter}`];
  return { given: positionals, options, postgres };
});

await main();
exitWithCounts();

async function main(): Promise<void> {
  const programs = postgres === undefined ? null : await installPostgres(postgres);
  if (programs) Deno.env.set("POSTGRES_PROGRAMS", programs);

  const project = Deno.env.get("SUPABASE_URL");
  const paths = given.length ? given : project ? PROJECT_FOLDERS : FOLDERS;
  const needsStack = !project && !(given.length && given.every((path) => WITHOUT_STACK.test(path)));
  if (project) console.log(`Testing ${project}`);
  if (needsStack) console.log("Starting a stack for the tests:");
  await using stack = needsStack ? await startTemporaryStack() : null;
  const isWhole = !given.length && !options.length;
  const beside = stack && isWhole ? runTests(null, [BESIDE], true) : null;
  await runTests(stack, [...paths, ...options]);
  if (beside) console.log(`# ${BESIDE}, which began with the tests above …`);
  await beside;
}
