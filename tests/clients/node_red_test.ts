import { describe, it } from "@std/testing/bdd";
import { fileURLToPath } from "node:url";
import { assertFollows } from "../collectors/tools.ts";

/** It has a lockfile of its own, because nothing else needs it. */
const NODE_RED = "npm:node-red@4.1.15";
const LOCK = fileURLToPath(new URL("node_red.lock", import.meta.url));

const SETTINGS = `module.exports = {
  flowFile: "follow_audit_log.json",
  httpAdminRoot: false,
  httpNodeRoot: false,
  contextStorage: { default: { module: "localfilesystem", config: { cache: false } } },
};`;

describe("examples/node-red/follow_audit_log.json", () => {
  it("delivers every entry at least once, across kills, and asks once a second", async () => {
    const settings = await Deno.makeTempFile({ suffix: ".js" });
    await Deno.writeTextFile(settings, SETTINGS);
    const options = ["--allow-all", "--no-config", `--lock=${LOCK}`, "--frozen"];
    const nodeRed = [Deno.execPath(), "run", ...options, NODE_RED, "--settings", settings];
    await assertFollows({
      config: "node-red/follow_audit_log.json",
      command: (folder) => [...nodeRed, "--userDir", folder],
      pause: 900,
    });
  });
});
