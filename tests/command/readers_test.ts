// Needs a stack. Slow.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { it } from "@std/testing/bdd";
import { AUDIT_LOG_URL, fill, hangUp, idsOf, idsOfLog, newFilledLog } from "../helpers/cli.ts";
import { newFolder, type Organization, runProgram, serveOnLoopback } from "../helpers/cli.ts";
import { startProxy, textOf, tryAgain, UNKNOWN_TOKEN, unpackRecipes } from "../helpers/cli.ts";
import { writeLate } from "../helpers/cli.ts";

// The programs of docs/following.md, as they stand there.

const FOLDER = newFolder();
await unpackRecipes(FOLDER, "following.md");

const READERS = {
  python3: ["python3", `${FOLDER}/follow.py`],
  node: ["node", `${FOLDER}/follow.mjs`],
  go: [`${FOLDER}/follow`],
};

async function isInstalled(program: string): Promise<boolean> {
  const args = program === "go" ? ["build", "-o", "follow", "follow.go"] : ["--version"];
  const { code, stderr } = await runProgram(program, { args, cwd: FOLDER })
    .catch((error) => ({ code: -1, stderr: `${error}` }));
  // Another code is a fault of the program on the page.
  if (code > 0) throw new Error(stderr);
  if (code < 0) console.log(`Skipped: ${program} is not on this machine: ${stderr}`);
  return code === 0;
}

function start([program = "", ...args]: string[], cwd: string, url: string, token: string) {
  const env = { AUDIT_LOG_URL: url, AUDIT_LOG_API_KEY: token };
  const options = { args, cwd, env, stdout: "piped", stderr: "piped" } as const;
  return new Deno.Command(program, options).spawn();
}

/** Runs a reader until it has saved its place after the last page. Returns the ids that it printed. */
async function readAll(reader: string[], cwd: string, organization: Organization) {
  let last = "none";
  // It is refused once, and one answer breaks off.
  await using api = startProxy(async (number, forward) => {
    if (number === 1) return tryAgain(503);
    const answer = await forward();
    const bytes = new Uint8Array(await answer.arrayBuffer());
    const { "x-has-more": more, "x-cursor": cursor = "" } = Object.fromEntries(answer.headers);
    if (number === 2 && more === "true") return new Response(hangUp(bytes.slice(0, -9)), answer);
    if (more === "false") last = cursor;
    return new Response(bytes, answer);
  }, organization);
  const changes = Deno.watchFs(cwd);
  const process = start(reader, cwd, api.url, organization.token);
  const output = process.output().then(textOf);
  for await (const _ of changes) {
    if (await Deno.readTextFile(`${cwd}/audit-log.cursor`).catch(() => "") === last) break;
  }
  process.kill("SIGKILL");
  return idsOf((await output).stdout);
}

for (const [program, reader] of Object.entries(READERS)) {
  it(`the readers of docs/following.md get every entry once, and go on where they were stopped: ${program}`, async () => {
    if (!await isInstalled(program)) return;
    const organization = await newFilledLog(2_500);
    const cwd = newFolder();
    const commitLate = await writeLate(organization);
    const first = await readAll(reader, cwd, organization);
    assertEquals(first, await idsOfLog(organization));
    await fill(organization, 10);
    await commitLate();
    const second = await readAll(reader, cwd, organization);
    assertEquals([...first, ...second].sort(), await idsOfLog(organization));
    assertEquals(second.length, 11);
  });

  it(`the readers of docs/following.md end and say why when the key is refused, and never give it to anybody else: ${program}`, async () => {
    if (!await isInstalled(program)) return;
    const refused = await start(reader, newFolder(), AUDIT_LOG_URL, UNKNOWN_TOKEN).output();
    assert(refused.code !== 0);
    assertStringIncludes(textOf(refused).stderr, '"code":"unauthorized"');
    let strangers = 0;
    await using stranger = serveOnLoopback(() => new Response(`${strangers++}`));
    await using api = serveOnLoopback(() => Response.redirect(`${stranger.url}/`));
    const led = await start(reader, newFolder(), api.url, UNKNOWN_TOKEN).output();
    assert(led.code !== 0);
    assertEquals(strangers, 0);
  });
}
