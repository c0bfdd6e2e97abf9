import { assertEquals } from "@std/assert";
import { describe } from "@std/testing/bdd";
import { fill, idsOfLog, newFilledLog, writeOutOfOrder } from "../clients/log.ts";
import { startProxy } from "../clients/proxy.ts";
import { randomFrom } from "../helpers.ts";
import { runProgram } from "../run_program.ts";
import { built, example } from "./tools.ts";

const { folder, it } = await built(
  "dlt",
  "python3 -m venv . && bin/pip install --quiet 'dlt[duckdb]==1.31.0'",
);

const READ_IDS = `
import duckdb, json, sys
rows = duckdb.connect(sys.argv[1]).execute("select id from audit_log.entries").fetchall()
print(json.dumps(sorted(row[0] for row in rows)))`;

describe("examples/dlt", () => {
  for (const name of ["follow_audit_log", "rest_api_audit_log"]) {
    it(`loads every entry once through eight kills, while others are written: ${name}`, async () => {
      const seed = Math.floor(Math.random() * 1e9);
      console.log(`seed ${seed}`);
      const random = randomFrom(seed);
      const organization = await newFilledLog(2_500);
      const cwd = await Deno.makeTempDir();
      let running: Deno.ChildProcess | undefined;
      let answersLeft = 0;
      await using api = startProxy(async (_number, forward) => {
        const response = await forward();
        if (--answersLeft === 0) setTimeout(() => running?.kill("SIGKILL"), random(900));
        return response;
      }, organization);
      const env = {
        AUDIT_LOG_URL: api.url,
        AUDIT_LOG_API_KEY: organization.token,
        DLT_DATA_DIR: `${cwd}/state`,
        RUNTIME__DLTHUB_TELEMETRY: "false",
      };
      const run = { args: [example(`dlt/${name}.py`)], cwd, env };
      for (let kill = 0; kill < 8; kill++) {
        answersLeft = 1 + random(2);
        const writing = writeOutOfOrder(organization, 5);
        running = new Deno.Command(`${folder}/bin/python`, {
          ...run,
          stdout: "null",
          stderr: "null",
        })
          .spawn();
        await running.status;
        await writing;
        await fill(organization, random(700));
      }
      answersLeft = 0;
      // What a killed run has read is loaded before new entries are read.
      for (let last = 0; last < 2; last++) {
        const { code, stderr } = await runProgram(`${folder}/bin/python`, run);
        assertEquals(code, 0, stderr);
      }
      const { stdout } = await runProgram(`${folder}/bin/python`, {
        args: ["-c", READ_IDS, `${name}.duckdb`],
        cwd,
      });
      assertEquals(JSON.parse(stdout), await idsOfLog(organization));
    });
  }
});
