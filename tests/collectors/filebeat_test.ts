import { assertEquals, assertMatch } from "@std/assert";
import { describe } from "@std/testing/bdd";
import { idsOfLog, newFilledLog, writeOutOfOrder } from "../clients/log.ts";
import { startProxy, tryAgain } from "../clients/proxy.ts";
import { AUDIT_LOG_URL, UNKNOWN_TOKEN } from "../helpers.ts";
import { runProgram } from "../run_program.ts";
import { built, example } from "./tools.ts";

/** Mito runs programs as filebeat's input `cel` does. */
const { folder, it } = await built(
  "mito",
  `
[ -e go.mod ] || go mod init collector
go mod edit -require=github.com/elastic/mito@v1.15.0
go build -mod=mod -o mito github.com/elastic/mito/cmd/mito`,
);

describe("examples/filebeat/audit_log.cel", () => {
  /** Runs the program. Returns the state after each evaluation. */
  async function evaluate(url: string, key: string, cursor?: { after: string }) {
    const state = await Deno.makeTempFile();
    await Deno.writeTextFile(state, JSON.stringify({ url, key, ...cursor && { cursor } }));
    const args = ["-data", state, example("filebeat/audit_log.cel")];
    const { code, stdout, stderr } = await runProgram(`${folder}/mito`, { args });
    assertEquals(code, 0, stderr);
    return stdout.trim().split(/(?<=^})\n/m).map((text) => JSON.parse(text));
  }

  it("reads every entry once, as the API wrote it, and stops when it has caught up", async () => {
    const organization = await newFilledLog(2_500);
    const messages: string[] = [];
    let cursor: { after: string } | undefined;
    for (const [round, expected] of [3, 1, 1, 1].entries()) {
      if (round > 0) await writeOutOfOrder(organization, 5);
      const pages = await evaluate(AUDIT_LOG_URL, organization.token, cursor);
      assertEquals(pages.length, expected);
      messages.push(...pages.flatMap(({ events }) => events).map(({ message }) => message));
      cursor = pages.at(-1).cursor;
    }
    const ids = messages.map((message) => JSON.parse(message).id);
    assertEquals(ids.sort(), await idsOfLog(organization));
    assertMatch(messages.join(), /9007199254740993/);
  });

  it("keeps its place when the quota is used up, and reports a key that is refused", async () => {
    await using api = startProxy(() => tryAgain(429, 1));
    const cursor = { after: "x" };
    const [limited] = await evaluate(api.url, UNKNOWN_TOKEN, cursor);
    assertEquals([limited.events, limited.cursor, limited.want_more], [[], cursor, false]);
    const [refused] = await evaluate(AUDIT_LOG_URL, UNKNOWN_TOKEN);
    assertEquals([refused.events.error.code, refused.want_more], ["401", false]);
  });
});
