import { assertEquals } from "@std/assert";
import { it as test } from "@std/testing/bdd";
import { fileURLToPath } from "node:url";
import { fill, idsOfLog, newFilledLog, writeLate } from "../clients/log.ts";
import { startKiller } from "../clients/proxy.ts";
import { randomFrom } from "../helpers.ts";
import { runProgram } from "../run_program.ts";

const VERSION = "dlt[duckdb]==1.31.0";
const FOLDER = fileURLToPath(new URL(`../../local/data/collectors/${VERSION}`, import.meta.url));
const PYTHON = `${FOLDER}/bin/python`;
const EXAMPLE = fileURLToPath(import.meta.resolve("../../examples/dlt/follow_audit_log.py"));

const READ_IDS = `
import duckdb, json, sys
rows = duckdb.connect(sys.argv[1]).execute("select id from audit_log.entries").fetchall()
print(json.dumps(sorted(row[0] for row in rows)))`;

const INSTALL = `[ ! -e done ] || exit 0
  python3 -m venv .
  bin/pip install --quiet '${VERSION}'
  touch done`;

await Deno.mkdir(FOLDER, { recursive: true });
const { code, stderr } = await runProgram("sh", { args: ["-ec", INSTALL], cwd: FOLDER });
if (code !== 0) console.log(`Skipped: dlt was not installed: ${stderr.trim().split("\n").at(-1)}`);
const it = code === 0 ? test : test.skip;

it("examples/dlt loads every entry once through eight kills, while others are written", async () => {
  const seed = Math.floor(Math.random() * 1e9);
  console.log(`seed ${seed}`);
  const random = randomFrom(seed);
  const organization = await newFilledLog(2_500);
  const cwd = await Deno.makeTempDir();
  await using api = startKiller(organization, () => random(900));
  const env = {
    AUDIT_LOG_URL: api.url,
    AUDIT_LOG_API_KEY: organization.token,
    DLT_DATA_DIR: `${cwd}/state`,
    RUNTIME__DLTHUB_TELEMETRY: "false",
  };
  const run = { args: [EXAMPLE], cwd, env };
  for (let kill = 0; kill < 8; kill++) {
    const commitLate = await writeLate(organization);
    const options = { ...run, stdout: "null", stderr: "null" } as const;
    const process = new Deno.Command(PYTHON, options).spawn();
    api.victim = { process, answersLeft: 1 + random(2) };
    await fill(organization, random(700));
    await process.status;
    await commitLate();
  }
  api.victim = undefined;
  // What a killed run has read is loaded before new entries are read.
  for (let last = 0; last < 2; last++) {
    const { code, stderr } = await runProgram(PYTHON, run);
    assertEquals(code, 0, stderr);
  }
  const args = ["-c", READ_IDS, "follow_audit_log.duckdb"];
  const { stdout } = await runProgram(PYTHON, { args, cwd });
  assertEquals(JSON.parse(stdout), await idsOfLog(organization));
});
