import { assert, assertEquals, assertMatch, assertNotEquals, assertRejects } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { ALL_DAYS, AUDIT_LOG_URL, getPage, newLog, type Organization } from "../helpers.ts";
import { serveOnLoopback } from "../loopback.ts";
import { type Ended, runProgram } from "../run_program.ts";
import { installCli, mustRun, newFolder } from "./cli.ts";
import { idsOf, idsOfLog, newFilledLog, writeOutOfOrder } from "./log.ts";
import { startProxy, tryAgain } from "./proxy.ts";
import { runRecipes, unpackRecipes } from "./recipes.ts";

const INSTALLED = await installCli();

/** Makes a folder with the program of the page. */
async function newReader(): Promise<string> {
  const path = newFolder();
  await unpackRecipes(path);
  return path;
}

async function sync(cwd: string, { token }: Organization, url = AUDIT_LOG_URL): Promise<Ended> {
  return await runProgram("python3", {
    args: ["follow.py"],
    cwd,
    env: { AUDIT_LOG_URL: url, AUDIT_LOG_API_KEY: token, NO_COLOR: "1" },
    stdin: "null",
    // Ends a program that hangs.
    signal: AbortSignal.timeout(60_000),
  });
}

function syncedTo(path: string): string[] {
  return idsOf(Deno.readTextFileSync(`${path}/audit.ndjson`));
}

describe("docs/integrating.md", () => {
  it("has commands that all run and find every entry", async () => {
    const organization = await newFilledLog(31, 11, 10);
    const { outputs, outputOf } = await runRecipes({
      AUDIT_LOG_URL,
      AUDIT_LOG_API_KEY: organization.token,
      PATH: `${INSTALLED}/node_modules/.bin:${Deno.env.get("PATH")}`,
    });

    assertEquals(outputOf("python3 follow.py"), "31");
    assertMatch(outputOf("--out=audit.csv"), /31 of 31 entries are in audit\.csv/);
    assert(outputs.every((output) => output !== ""));
  });

  it("syncs every entry once, while others are written, and waits when the quota is used up", async () => {
    const organization = await newFilledLog(2_500);
    const path = await newReader();
    let writing = Promise.resolve();
    await using proxy = startProxy((number, forward) => {
      if (number <= 2) return tryAgain(429, "1");
      if (number === 3) writing = writeOutOfOrder(organization, 20);
      return forward();
    });
    for (let i = 0; i < 2; i++) await mustRun(sync(path, organization, proxy.url));
    await writing;
    for (let i = 0; i < 2; i++) {
      await mustRun(sync(path, organization));
      assertEquals(syncedTo(path), await idsOfLog(organization));
    }
    const { total } = await getPage(organization.token, ALL_DAYS);
    assertEquals(syncedTo(path).length, total);
  });

  it("stops and delivers nothing when the key is refused, the address has moved or the answer is no page", async () => {
    const organization = await newLog();
    const path = await newReader();
    const shown: (string | null)[] = [];
    await using refusing = serveOnLoopback(({ headers }) => {
      shown.push(headers.get("Authorization"));
      return new Response(null, { status: 401 });
    });
    await using moved = startProxy(() => Response.redirect(refusing.url, 302));
    await using page = serveOnLoopback(() => new Response("<html>Sign in</html>"));
    for (const { url } of [moved, page]) {
      assertNotEquals((await sync(path, organization, url)).code, 0);
    }
    // The key does not go to where the address has moved.
    assert(shown.every((authorization) => authorization === null));
    const { code, stderr } = await sync(path, organization, refusing.url);
    assertNotEquals(code, 0);
    assertMatch(stderr, /401/);
    await assertRejects(() => Deno.stat(`${path}/audit.ndjson`), Deno.errors.NotFound);
  });
});
