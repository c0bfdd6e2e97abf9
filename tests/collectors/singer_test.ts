import { assertEquals } from "@std/assert";
import { describe } from "@std/testing/bdd";
import { fill, idsOfLog, newFilledLog } from "../clients/log.ts";
import { startKiller } from "../clients/proxy.ts";
import { insertEntry, randomFrom, sql } from "../helpers.ts";
import { textOf } from "../run_program.ts";
import { example, installed } from "./tools.ts";

const { bin, it } = await installed("tap-rest-api-msdk==1.4.2");

interface Message {
  type: string;
  record: { id: string };
  value: object;
}

describe("examples/singer", () => {
  it("reads every entry through eight kills, while others are written; but none that is committed after later ones", async () => {
    const seed = Math.floor(Math.random() * 1e9);
    console.log(`seed ${seed}`);
    const random = randomFrom(seed);
    const organization = await newFilledLog(2_500, 1);
    const state = await Deno.makeTempFile();
    await Deno.writeTextFile(state, "{}");
    const ids = new Set<string>();
    await using api = startKiller(organization, () => random(300));

    /** Runs the tap, takes what it has printed as delivered, and keeps its last state. */
    async function sync(answersLeft?: number): Promise<number> {
      const config = ["--config", "ENV", "--config", example("singer/config.json")];
      const process = new Deno.Command(`${bin}/tap-rest-api-msdk`, {
        args: [...config, "--state", state],
        env: {
          TAP_REST_API_MSDK_API_URL: new URL(api.url).origin,
          TAP_REST_API_MSDK_BEARER_TOKEN: organization.token,
        },
        stdin: "null",
        stdout: "piped",
        stderr: "piped",
      }).spawn();
      api.victim = answersLeft ? { process, answersLeft } : undefined;
      const { code, stdout } = textOf(await process.output());
      const lines = stdout.split("\n").slice(0, -1);
      for (const { type, record, value } of lines.map((line): Message => JSON.parse(line))) {
        if (type === "RECORD") ids.add(record.id);
        if (type === "STATE") await Deno.writeTextFile(state, JSON.stringify(value));
      }
      return code;
    }

    for (let day = 10; day < 26; day += 2) {
      const syncing = sync(1 + random(4));
      for (let hour = 10; hour < 20; hour++) {
        await insertEntry(sql, organization.id, { created_at: `2026-11-${day} ${hour}:00Z` });
      }
      await syncing;
      await fill(organization, random(700), day + 1);
    }
    assertEquals(await sync(), 0);
    assertEquals([...ids].sort(), await idsOfLog(organization));

    await insertEntry(sql, organization.id, { created_at: "2026-11-03" });
    assertEquals(await sync(), 0);
    assertEquals((await idsOfLog(organization)).length - ids.size, 1);
  });
});
