import { assertEquals } from "@std/assert";
import { it } from "@std/testing/bdd";
import { cp } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import {
  API_URL,
  AUDIT_LOG_URL,
  getPage,
  newLog,
  type Page,
  startFunction,
  TWO_DAYS,
  withKey,
} from "../helpers.ts";
import { runProgram } from "../run_program.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const FUNCTION = "supabase/functions/public-audit-log";

/** Builds the file in a folder, with the command of docs/operating.md. Returns the path that config.toml gets. */
async function buildOneFile(folder: string): Promise<string> {
  await cp(join(ROOT, FUNCTION), join(folder, FUNCTION), { recursive: true });
  const guide = await Deno.readTextFile(join(ROOT, "docs/operating.md"));
  const [command = ""] = guide.match(/^cd supabase.* deno bundle(?:.|\n)*?(?=```)/m) ?? [];
  const { code, stderr } = await runProgram("bash", { args: ["-c", command], cwd: folder });
  assertEquals(code, 0, stderr);
  const [, entrypoint = ""] = guide.match(/`entrypoint = "(.*?)"`/) ?? [];
  return join(folder, "supabase", entrypoint);
}

it("the function as one file, which docs/operating.md builds, runs on the Deno of Supabase's runtime, and answers as its files do: a page, a page of the feed, NDJSON, and the contract", async () => {
  const folder = await Deno.makeTempDir();
  const main = pathToFileURL(await buildOneFile(folder));
  await using edgeFunction = await startFunction({ main });
  const { token } = await newLog({ agent_name: "First" }, { agent_name: "Second" });
  const home = edgeFunction.url;
  const ask = (query: string, accept = "application/json") =>
    fetch(`${home}?${query}`, withKey(token, { Accept: accept }));
  for (const query of [TWO_DAYS, `${TWO_DAYS}&after=beginning`]) {
    // Each answer has another cursor, which is encrypted.
    const { cursor, ...page }: Page = await (await ask(query)).json();
    const { cursor: other, ...expected } = await getPage(token, query);
    assertEquals([page, typeof cursor], [expected, typeof other]);
  }
  const lines = await ask(TWO_DAYS, "application/x-ndjson");
  const { items } = await getPage(token, TWO_DAYS);
  const read = (await lines.text()).trimEnd().split("\n").map((line) => JSON.parse(line));
  assertEquals([lines.headers.get("Content-Type"), read], ["application/x-ndjson", items]);
  const contracts = await Promise.all(
    [home, AUDIT_LOG_URL].map(async (url) => await (await fetch(`${url}/openapi.json`)).text()),
  );
  assertEquals(contracts[0], contracts[1]);
  assertEquals(JSON.parse(contracts[0] ?? "").servers, [{ url: `${API_URL}/functions/v1` }]);
  await Deno.remove(folder, { recursive: true });
});
