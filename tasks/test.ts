import { startTemporaryStack } from "../local/temporary_stack.ts";
import { runCommand } from "../local/run_command.ts";
import { installPostgres } from "./postgres/versions.ts";
import { add, closingLine, runTests, testBeside } from "./run_tests.ts";

const FOLDERS = ["tests/pure", "tests/stack"];
/** Runs at the same time as FOLDERS, because it mostly waits for its own stacks to start. */
const BESIDE = "tests/local";
/** Tests for a hosted project. Attacks and faults only run against a local stack. */
const PROJECT_FOLDERS = ["tests/pure", "tests/stack", "tests/clients"];
/** These need no stack, or start their own. */
const WITHOUT_STACK = /^tests\/(pure|local|faults)/;

/** Chooses the Postgres of the stacks. All other arguments are those of `deno test`. */
const POSTGRES = "--postgres=";

if (!await main()) Deno.exit(1);

async function main(): Promise<boolean> {
  const project = Deno.env.get("SUPABASE_URL");
  const version = Deno.args.findLast((argument) => argument.startsWith(POSTGRES));
  if (version && project) {
    console.log("--postgres is for stacks of this machine: unset SUPABASE_URL");
    return false;
  }
  const programs = version && await installPostgres(version.slice(POSTGRES.length));
  if (programs) Deno.env.set("POSTGRES_PROGRAMS", programs);

  const rest = Deno.args.filter((argument) => !argument.startsWith(POSTGRES));
  const given = rest.filter((argument) => argument.startsWith("tests"));
  const args = given.length ? rest : [...project ? PROJECT_FOLDERS : FOLDERS, ...rest];
  if (given.some((path) => path.startsWith("tests/browser"))) {
    Deno.env.set("CHROMIUM", await findBrowser());
  }
  const needsStack = !project && !(given.length && given.every((path) => WITHOUT_STACK.test(path)));
  if (project) console.log(`Testing ${project}`);
  if (needsStack) console.log("Starting a stack for the tests:");
  await using stack = needsStack ? await startTemporaryStack() : null;
  const beside = stack && !given.length ? testBeside(BESIDE, ...rest) : null;
  const counts = await runTests(stack, args);
  if (counts.failed && stack) console.log(stack.faults.join(""));
  if (beside) console.log(`# ${BESIDE}, which began with the tests above …`);
  const others = await beside;
  if (others) add(counts, others);
  console.log(closingLine(counts));
  return counts.failed === 0;
}

/** Returns the path of a Chromium or Chrome. Installs Debian's if there is none and this process may. */
async function findBrowser(): Promise<string> {
  const find = "command -v chromium || command -v chromium-browser || command -v google-chrome";
  const install = Deno.build.os === "linux" && Deno.uid() === 0
    ? "apt-get update -qq && apt-get install -qq --no-install-recommends chromium"
    : "echo 'There is no Chromium: install it, or name it with CHROMIUM=…' && false";
  const script = `${find} || { { ${install}; } >&2 && ${find}; }`;
  return Deno.env.get("CHROMIUM") || (await runCommand("sh", { args: ["-c", script] })).trim();
}
