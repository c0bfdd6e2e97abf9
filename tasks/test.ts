import { startTemporaryStack } from "../local/temporary_stack.ts";
import { installPostgres } from "./postgres/versions.ts";
import { exitWithCounts, runTests } from "./run_tests.ts";

const FOLDERS = ["tests/pure", "tests/stack"];
/** Runs at the same time as FOLDERS, because it mostly waits for its own stacks to start. */
const BESIDE = "tests/local";
/** Tests for a hosted project. Attacks and faults only run against a local stack. */
const PROJECT_FOLDERS = ["tests/pure", "tests/stack", "tests/clients"];
/** These need no stack, or start their own. */
const WITHOUT_STACK = /^tests\/(pure|local|faults)/;

/** Chooses the Postgres of the stacks. All other arguments are those of `deno test`. */
const POSTGRES = "--postgres=";

await main();
exitWithCounts();

async function main(): Promise<void> {
  const version = Deno.args.findLast((argument) => argument.startsWith(POSTGRES));
  const programs = version && await installPostgres(version.slice(POSTGRES.length));
  if (programs) Deno.env.set("POSTGRES_PROGRAMS", programs);

  const project = Deno.env.get("SUPABASE_URL");
  const rest = Deno.args.filter((argument) => !argument.startsWith(POSTGRES));
  const given = rest.filter((argument) => argument.startsWith("tests"));
  const args = given.length ? rest : [...project ? PROJECT_FOLDERS : FOLDERS, ...rest];
  const needsStack = !project && !(given.length && given.every((path) => WITHOUT_STACK.test(path)));
  if (project) console.log(`Testing ${project}`);
  if (needsStack) console.log("Starting a stack for the tests:");
  await using stack = needsStack ? await startTemporaryStack() : null;
  const beside = stack && !given.length ? runTests(null, [BESIDE, ...rest], true) : null;
  await runTests(stack, args);
  if (beside) console.log(`# ${BESIDE}, which began with the tests above …`);
  await beside;
}
