import { assertEquals } from "@std/assert";
import { describe } from "@std/testing/bdd";
import { fileURLToPath } from "node:url";
import { API_URL, insertEntries, newLog, sql } from "../helpers.ts";
import { runProgram } from "../run_program.ts";
import { built } from "./tools.ts";

const DOCUMENT = fileURLToPath(new URL("../../docs/openapi.json", import.meta.url));
const EXAMPLES = Deno.env.get("FUZZ_EXAMPLES") ?? "100";

const { folder, it } = await built(
  "schemathesis",
  "python3 -m venv . && bin/pip install --quiet schemathesis==4.32.5",
);

async function setQuota(requests: number): Promise<void> {
  await sql.unsafe(`
    create or replace function audit_log_private.quota() returns integer
    language plpgsql stable set search_path = pg_catalog, pg_temp as 'begin return ${requests}; end'`);
}

describe("schemathesis", () => {
  it("finds no 500, and no answer that docs/openapi.json does not have", async () => {
    const { id, token } = await newLog();
    await insertEntries(sql, id, "2026-11-20", 300);
    const args = [
      ...["run", DOCUMENT, `--url=${API_URL}/functions/v1`],
      ...[`--header=Authorization: Bearer ${token}`, "--checks=all"],
      // OpenAPI cannot say that end is not before start, nor that after excludes offset.
      "--exclude-checks=positive_data_acceptance",
      ...[`--max-examples=${EXAMPLES}`, "--no-color"],
    ];
    // Otherwise most answers would be 429.
    await setQuota(5000);
    try {
      const program = `${folder}/bin/schemathesis`;
      const { code, stdout } = await runProgram(program, { cwd: folder, args });
      assertEquals(code, 0, stdout);
    } finally {
      await setQuota(60);
    }
  });
});
