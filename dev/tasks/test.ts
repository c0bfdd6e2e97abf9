import { existsSync } from "node:fs";
import { parseArgs } from "node:util";
import { installPostgres } from "./postgres/versions.ts";
import { exitWithCounts } from "./run_tests.ts";
import { findTestFiles, runTestFiles } from "./test_files.ts";
import { parseOrPrintUsage } from "./usage.ts";

const USAGE = `Runs the tests that are not slow; or the files and folders given

  --postgres=VERSION  the stack's Postgres: 15, 17, 18 (17)
  --without-streams   installs the service without streams, and leaves their tests out
  --filter=TEXT       only the groups and tests whose name has this text
  -h, --help          prints this`;

const { given, options, postgres } = parseOrPrintUsage(USAGE, () => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      postgres: { type: "string", default: "17" },
      filter: { type: "string" },
      "without-streams": { type: "boolean" },
    },
  });
  const { postgres, filter } = values;
  if (values["without-streams"]) Deno.env.set("WITHOUT_STREAMS", "true");
  if (!["15", "17", "18"].includes(postgres)) throw new RangeError("--postgres: 15, 17 or 18");
  const missing = positionals.find((path) => !path.startsWith("tests") || !existsSync(path));
  if (missing !== undefined) throw new RangeError(`There is no test file or folder ${missing}`);
  return { given: positionals, options: filter ? [`--filter=${filter}`] : [], postgres };
});

const programs = await installPostgres(postgres);
if (programs) Deno.env.set("POSTGRES_PROGRAMS", programs);
const project = Deno.env.get("SUPABASE_URL");
if (project) console.log(`Testing ${project}`);
const hasStreams = !Deno.env.has("WITHOUT_STREAMS");
const files = (await findTestFiles(given.length ? given : ["tests"]))
  .filter(({ path }) => hasStreams || !path.includes("streams"))
  .filter(({ needs, isSlow }) =>
    given.length > 0 || (project ? ["nothing", "a stack"].includes(needs) : !isSlow)
  );
await runTestFiles(files, options);
exitWithCounts();
