import { startTemporaryStack } from "../local/temporary_stack.ts";
import { findBrowser } from "../tests/browser/find_browser.ts";
import { installPostgres } from "./postgres/versions.ts";
import { add, closingLine, runTests, testBeside } from "./run_tests.ts";

const NAMES = [
  "SUPABASE_URL",
  "SUPABASE_DB_URL",
  "SUPABASE_PUBLISHABLE_KEY",
  "SUPABASE_SECRET_KEY",
];

const FOLDERS = ["tests/pure", "tests/stack"];
/** Runs beside these: it mostly waits for stacks of its own. */
const BESIDE = "tests/local";
/** Tests for a hosted project. Attacks and faults only run against a local stack. */
const PROJECT_FOLDERS = ["tests/pure", "tests/stack", "tests/clients"];

if (!await main()) Deno.exit(1);

async function main(): Promise<boolean> {
  const missing = NAMES.filter((name) => !Deno.env.get(name));
  const isNamed = missing.length < NAMES.length;
  if (isNamed && missing.length > 0) {
    console.log(`To test a project of your own, also set: ${missing.join(", ")}`);
    return false;
  }
  const { version, rest } = postgresOption(Deno.args);
  if (version && isNamed) {
    console.log("--postgres is for stacks of this machine: unset SUPABASE_URL, or leave it out");
    return false;
  }
  const programs = version && await installPostgres(version);
  if (programs) Deno.env.set("POSTGRES_PROGRAMS", programs);
  const given = rest.filter((argument) => argument.startsWith("tests"));
  const args = given.length ? rest : [...isNamed ? PROJECT_FOLDERS : FOLDERS, ...rest];
  if (given.some((path) => path.startsWith("tests/browser"))) {
    Deno.env.set("CHROMIUM", await findBrowser());
  }
  // The pure tests need none, and those of faults start stacks of their own.
  const needsStack = !isNamed && !(given.length && given.every(isWithoutStack));
  if (isNamed) console.log(`Testing ${Deno.env.get("SUPABASE_URL")}`);
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

/** Takes `--postgres=15` out of the arguments, which otherwise are those of `deno test`. */
function postgresOption(args: string[]): { version: string | null; rest: string[] } {
  const option = args.findLast((argument) => argument.startsWith("--postgres="));
  return {
    version: option?.slice("--postgres=".length) ?? null,
    rest: args.filter((argument) => !argument.startsWith("--postgres=")),
  };
}

function isWithoutStack(path: string): boolean {
  return path.startsWith("tests/pure") || path.startsWith("tests/faults");
}
