// Needs a stack and a browser. Slow.

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { AUDIT_LOG_URL, get, writeEntries } from "../helpers/mod.ts";
import { runProgram } from "../helpers/run_program.ts";
import { openScreen, today, type View } from "../helpers/browser.ts";

const FOLDER = Deno.makeTempDirSync();
afterAll(() => Deno.remove(FOLDER, { recursive: true }));

function group({ page }: View, name: string) {
  return page.getByRole("group", { name, exact: true });
}

/** What a person would paste into a shell. */
function commandOf(view: View): Promise<string> {
  return group(view, "Run").innerText();
}

/** Pastes commands into a shell that keeps a history, and then what the last of them reads. */
async function paste(commands: string, input = ""): Promise<string> {
  const process = new Deno.Command("bash", {
    args: ["--norc", "-i"],
    cwd: FOLDER,
    env: { HISTFILE: "history" },
    stdin: "piped",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  const writer = process.stdin.getWriter();
  await writer.write(new TextEncoder().encode(`${commands}\n${input}`));
  await writer.close();
  return new TextDecoder().decode((await process.output()).stdout);
}

/** Pastes commands that do not end by themselves, and ends them after the first line that they print. */
async function pasteUntilLine(commands: string): Promise<string> {
  const process = new Deno.Command("bash", {
    args: ["-c", commands],
    cwd: FOLDER,
    // A group of its own, which is killed as a whole.
    detached: true,
    stdin: "null",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  let text = "";
  for await (const part of process.stdout.pipeThrough(new TextDecoderStream())) {
    text += part;
    if (text.includes("\n")) break;
  }
  await runProgram("kill", { args: ["-KILL", "--", `-${process.pid}`] });
  await process.status;
  return text;
}

async function isInstalled(program: string): Promise<boolean> {
  const { code } = await runProgram("which", { args: [program] });
  if (code !== 0) console.log(`Skipped: ${program} is not on this machine`);
  return code === 0;
}

describe("Connect, for a new key", () => {
  it("has commands that work as they stand, without the token in them, and says Reading only once entries were read", async () => {
    const { view, page, id } = await openScreen(
      "keys",
      ({ id }) => writeEntries(id, [{ created_at: new Date().toISOString() }]),
    );
    await view.press("Create key");
    await page.getByRole("dialog").getByRole("textbox", { name: "Name" }).fill("SIEM");
    await page.getByRole("dialog").getByRole("button", { name: "Create key" }).click();
    const token = await group(view, "Token").innerText();
    assertMatch(token, /^pck_[0-9A-Za-z]{38}$/);
    assertEquals(await view.copy("Token"), token);

    await view.shows("Waiting for the first request");
    await get(token, "start=yesterday&end=today");
    await view.shows("1 request refused with 400: the answer says what to correct.");
    await get(token, "start=2001-01-01&end=2001-01-01");
    await view.shows("2 requests and 0 entries read");
    assertEquals(await page.getByText("Reading:").count(), 0);

    await paste(await group(view, "Store the token").innerText(), `${token}\n`);
    assertEquals((await Deno.stat(`${FOLDER}/audit-log.key`)).mode! & 0o777, 0o600);
    const { organization_id, total } = JSON.parse(await paste(await commandOf(view)));
    assertEquals([organization_id, total], [id, 1]);
    const history = await Deno.readTextFile(`${FOLDER}/history`);
    assert(history.includes("cat audit-log.key") && !history.includes(token), history);
    await view.shows(/^Reading: 1 entry in 30 days, .* The first request came at 20.* UTC\.$/);
    // Not the entries of before, but what happens now, is news.
    await get(token, "start=yesterday&end=today");
    await view.shows("2 requests refused with 400");
    await get(token, `start=${today()}&end=${today()}`);
    await view.shows(/^Reading: 2 entries .* 2 requests of today refused with 400\./);

    const readers = { Python: "python3", Node: "node", Go: "go" };
    for (const [name, program] of Object.entries(readers)) {
      await view.choose("Connect", name);
      if (!await isInstalled(program)) continue;
      await Deno.remove(`${FOLDER}/audit-log.cursor`).catch(() => {});
      const [line = ""] = (await pasteUntilLine(await commandOf(view))).split("\n");
      assertEquals(JSON.parse(line).user_email, "ada@example.com", name);
    }
  });
});

describe("Connect, for a key that was made before", () => {
  it("says where the token is, never gives its hint for it, and leads to streams, which need none", async () => {
    const { view, page, admin, token } = await openScreen("keys");
    await view.openMenu("test", "Connect …");
    await view.shows(`was shown once, when ${admin.email} made the key on ${today()}. It is where`);
    const ways = page.getByLabel("Connect", { exact: true }).locator("option");
    for (const name of await ways.allInnerTexts()) {
      if (name === "A stream: nothing to run") continue;
      await view.choose("Connect", name);
      const shown = await page.getByRole("dialog").getByRole("group").allInnerTexts();
      for (const text of shown) {
        assert(!text.includes(token.slice(0, 7)) && !text.includes("HOST"), text);
        assert(!/[<>…](?! )|npx/.test(text.replaceAll("cat >", "")), text);
      }
      const command = await commandOf(view);
      assertStringIncludes(command, `AUDIT_LOG_URL=${AUDIT_LOG_URL}\n`);
    }
    await view.choose("Connect", "A collector in your network");
    const [forward = "none"] = (await commandOf(view)).match(/^public-audit-log forward .*$/m) ??
      [];
    // The collectors on the page listen there.
    assertStringIncludes(await Deno.readTextFile("docs/integrating.md"), forward);
    await view.assertAccessible("key-connect");
    await view.choose("Connect", "A stream: nothing to run");
    await view.assertAccessible("key-connect-push");
    await view.press("Create a stream");
    await page.getByRole("heading", { name: "New stream" }).waitFor();
  });

  it("says after half a minute of silence what a 401 on the other side means, also when the key has read before", async () => {
    const { view, page, id, token } = await openScreen("keys");
    await writeEntries(id, [{ created_at: new Date().toISOString() }]);
    const advice = `If the application gets 401, it sends another token: this key's is ${
      token.slice(0, 7)
    }…${token.slice(-4)}.`;
    await page.clock.install();
    await view.openMenu("test", "Connect …");
    await view.shows("Waiting for the first request");
    await page.clock.fastForward(31_000);
    await view.shows(`No request yet. ${advice}`);
    await view.assertAccessible("key-connect-late");
    await get(token, `start=${today()}&end=${today()}`);
    await page.clock.fastForward(10_000);
    await view.shows("1 entry read in 30 days");
    await view.shows(advice);
    assertEquals(await page.getByText("Reading:").count(), 0);
  });
});
