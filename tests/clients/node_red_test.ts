import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { fileURLToPath } from "node:url";
import { AUDIT_LOG_URL } from "../helpers.ts";
import { idsOf, idsOfLog, newFilledLog, writeOutOfOrder } from "./log.ts";

/** With a lockfile of its own: nothing else needs it. */
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
  const process = new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--allow-all",
      "--no-config",
      `--lock=${LOCK}`,
      "--frozen",
      NODE_RED,
      "-u",
      folder,
    ],
    env: {
      AUDIT_LOG_URL,
      AUDIT_LOG_API_KEY: token,
      AUDIT_LOG_FILE: `${folder}/audit.ndjson`,
    },
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

/** Waits until a file in a folder has so many lines; its content then. */
async function written(folder: string, lines: number): Promise<string> {
  const watcher = Deno.watchFs(folder);
  const tooLate = setTimeout(() => watcher.close(), 120_000);
  const read = () => Deno.readTextFile(`${folder}/audit.ndjson`).catch(() => "");
  const isWhole = (content: string) => content.split("\n").length > lines;
  let content = await read();
  if (!isWhole(content)) {
    for await (const _event of watcher) {
      content = await read();
      if (isWhole(content)) break;
    }
  }
  clearTimeout(tooLate);
  if (isWhole(content)) return content;
  throw new Error(`${content.split("\n").length - 1} lines instead of ${lines}`);
}

describe("examples/node-red/follow_audit_log.json", () => {
  it("writes every entry once while it is written, also across a restart of Node-RED", async () => {
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
