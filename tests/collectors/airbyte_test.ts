import { assertEquals } from "@std/assert";
import { describe } from "@std/testing/bdd";
import { idsOfLog, newFilledLog, writeOutOfOrder } from "../clients/log.ts";
import { startProxy } from "../clients/proxy.ts";
import { runProgram } from "../run_program.ts";
import { built, example } from "./tools.ts";

const STREAM = { name: "entries", json_schema: {}, supported_sync_modes: ["incremental"] };
const MODES = { sync_mode: "incremental", destination_sync_mode: "append_dedup" };

interface Message {
  type: string;
  record: { data: { id: string } };
  state: unknown;
}

const { folder, it } = await built(
  "airbyte",
  "python3 -m venv . && bin/pip install --quiet airbyte-cdk==7.39.1",
);

describe("examples/airbyte", () => {
  it("reads every entry, and late ones of the last days with the next sync", async () => {
    const organization = await newFilledLog(2_500);
    await using api = startProxy((_number, forward) => forward());
    const path = await Deno.makeTempDir();
    const ids = new Set<string>();
    let state: unknown[] = [];
    for (let sync = 0; sync < 3; sync++) {
      const config = { url: api.url, api_key: organization.token, start: "2026-11-01" };
      const files = { config, catalog: { streams: [{ stream: STREAM, ...MODES }] }, state };
      const args = ["read", "--manifest-path", example("airbyte/manifest.yaml")];
      for (const [name, content] of Object.entries(files)) {
        await Deno.writeTextFile(`${path}/${name}`, JSON.stringify(content));
        args.push(`--${name}`, `${path}/${name}`);
      }
      const program = `${folder}/bin/source-declarative-manifest`;
      const { code, stdout } = await runProgram(program, { args });
      assertEquals(code, 0, stdout);
      const messages = stdout.trim().split("\n").map((line): Message => JSON.parse(line));
      for (const { type, record } of messages) if (type === "RECORD") ids.add(record.data.id);
      state = messages.filter(({ type }) => type === "STATE").slice(-1).map(({ state }) => state);
      if (sync === 0) await writeOutOfOrder(organization, 10);
    }
    assertEquals([...ids].sort(), await idsOfLog(organization));
  });
});
