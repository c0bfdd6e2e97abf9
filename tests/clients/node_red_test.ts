import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { fileURLToPath } from "node:url";
import { AUDIT_LOG_URL } from "../helpers.ts";
import { idsOf, idsOfLog, newFilledLog, writeOutOfOrder } from "./log.ts";

/** It has a lockfile of its own, because nothing else needs it. */
const NODE_RED = "npm:node-red@4.1.15";
const LOCK = fileURLToPath(new URL("node_red.lock", import.meta.url));
const FLOW = new URL("../../examples/node-red/follow_audit_log.json", import.meta.url);

const SETTINGS = `module.exports = {
  flowFile: "flow.json",
  httpAdminRoot: false,
  httpNodeRoot: false,
  contextStorage: { default: { module: "localfilesystem", config: { cache: false } } },
};`;

function startNodeRed(folder: string, token: string) {
  const options = ["--allow-all", "--no-config", `--lock=${LOCK}`, "--frozen"];
  const AUDIT_LOG_FILE = `${folder}/audit.ndjson`;
  const process = new Deno.Command(Deno.execPath(), {
    args: ["run", ...options, NODE_RED, "-u", folder],
    env: { AUDIT_LOG_URL, AUDIT_LOG_API_KEY: token, AUDIT_LOG_FILE },
    cwd: folder,
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  return {
    async [Symbol.asyncDispose]() {
      process.kill("SIGTERM");
      await process.status;
    },
  };
}

/** Waits until the file in a folder has so many lines, and returns it. */
async function written(folder: string, lines: number): Promise<string> {
  const watcher = Deno.watchFs(folder);
  const tooLate = setTimeout(() => watcher.close(), 120_000);
  const changes = watcher[Symbol.asyncIterator]();
  let content = "";
  for (let isOver = false; !isOver; isOver = !!(await changes.next()).done) {
    content = await Deno.readTextFile(`${folder}/audit.ndjson`).catch(() => "");
    if (content.split("\n").length <= lines) continue;
    clearTimeout(tooLate);
    watcher.close();
    return content;
  }
  throw new Error(`${content.split("\n").length - 1} lines instead of ${lines}`);
}

describe("examples/node-red/follow_audit_log.json", () => {
  it("writes every entry once, beside writers and across a restart of Node-RED", async () => {
    const organization = await newFilledLog(1_500);
    const folder = await Deno.makeTempDir();
    await Deno.copyFile(FLOW, `${folder}/flow.json`);
    await Deno.writeTextFile(`${folder}/settings.js`, SETTINGS);
    for (let start = 0; start < 2; start++) {
      await using _nodeRed = startNodeRed(folder, organization.token);
      await writeOutOfOrder(organization, 10);
      const ids = await idsOfLog(organization);
      assertEquals(idsOf(await written(folder, ids.length)), ids);
    }
    await Deno.remove(folder, { recursive: true });
  });
});
