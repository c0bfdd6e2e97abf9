import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { fileURLToPath } from "node:url";
import { AUDIT_LOG_URL, newOrganization, signUp, sql } from "../helpers.ts";
import { idsOf, idsOfLog, writeOutOfOrder } from "./out_of_order.ts";

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

const admin = await signUp();

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

/** Waits until the file has so many lines; its content then. */
async function written(folder: string, lines: number): Promise<string> {
  const watcher = Deno.watchFs(folder);
  const tooLate = setTimeout(() => watcher.close(), 120_000);
  const read = () => Deno.readTextFile(`${folder}/audit.ndjson`).catch(() => "");
  let content = await read();
  const isEnough = () => content.split("\n").length > lines;
  if (!isEnough()) {
    for await (const _event of watcher) {
      content = await read();
      if (isEnough()) break;
    }
  }
  clearTimeout(tooLate);
  if (isEnough()) return content;
  throw new Error(`${content.split("\n").length - 1} lines instead of ${lines}`);
}

describe("examples/node-red/follow_audit_log.json", () => {
  it("writes every entry once while it is written, also across a restart of Node-RED", async () => {
    const organization = await newOrganization(admin);
    await sql`
      insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name)
      select ${organization.id}, '2026-11-20Z'::timestamptz + n * interval '1 s', 'agent_added',
        'ada@example.com', 'Assistant'
      from generate_series(1, 1500) as n`;
    const folder = await Deno.makeTempDir();
    await Deno.copyFile(FLOW, `${folder}/flow.json`);
    await Deno.writeTextFile(`${folder}/settings.js`, SETTINGS);
    for (let start = 0; start < 2; start++) {
      await using _nodeRed = startNodeRed(folder, organization.token);
      await writeOutOfOrder(sql, organization, 10);
      const ids = await idsOfLog(sql, organization);
      assertEquals(idsOf(await written(folder, ids.length)), ids);
    }
    await Deno.remove(folder, { recursive: true });
  });
});
