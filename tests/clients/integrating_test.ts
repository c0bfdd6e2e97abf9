import { assert, assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import {
  AUDIT_LOG_URL,
  type Entry,
  getPage,
  newOrganization,
  type Organization,
  signUp,
  sql,
  writeEntries,
} from "../helpers.ts";
import { serveOnLoopback } from "../loopback.ts";
import { type Ended, textOf } from "../run_program.ts";
import { idsOf, idsOfLog, writeOutOfOrder } from "./out_of_order.ts";
import { startProxy, tryAgain } from "./proxy.ts";
import { installCli } from "./installed_cli.ts";
import { runRecipes, unpackRecipes } from "./recipes.ts";

const INSTALLED = await installCli();
const admin = await signUp();
const folder = await Deno.makeTempDir();
await unpackRecipes(folder);
afterAll(() => Deno.remove(folder, { recursive: true }));

const LONGEST_RUN_MS = 60_000;

/** How each language runs the daily sync of the page. */
const LANGUAGES: Record<string, string[]> = {
  curl: ["bash", "follow.sh", "sync", "cat >> audit.ndjson"],
  Python: ["python3", "sync.py"],
};

/** Writes so many entries, evenly over the 20th of November 2026. */
async function fill({ id }: Organization, count: number): Promise<void> {
  await sql`
    insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name, data)
    select ${id}, '2026-11-20Z'::timestamptz + n * interval '1 day' / ${count}::int,
      'feedback_given', 'ada@example.com', 'say "},{" ' || n, '{"list": [{"id": 1}, {"id": 2}]}'
    from generate_series(0, ${count}::int - 1) as n`;
}

/** A folder with the recipes, for one organization. */
class Reader {
  readonly path = `${folder}/${crypto.randomUUID()}`;
  #organization: Organization;

  constructor(organization: Organization) {
    this.#organization = organization;
    Deno.mkdirSync(this.path);
    for (const { name, isFile } of Deno.readDirSync(folder)) {
      if (isFile) Deno.copyFileSync(`${folder}/${name}`, `${this.path}/${name}`);
    }
  }

  start(command: string[], { url = AUDIT_LOG_URL } = {}): Deno.ChildProcess {
    const [program = "", ...args] = command;
    return new Deno.Command(program, {
      args,
      cwd: this.path,
      env: {
        AUDIT_LOG_URL: url,
        AUDIT_LOG_API_KEY: this.#organization.token,
        NO_COLOR: "1",
      },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
      // One that hangs would hang the tests.
      signal: AbortSignal.timeout(LONGEST_RUN_MS),
    }).spawn();
  }

  async run(command: string[], options = {}): Promise<Ended> {
    return textOf(await this.start(command, options).output());
  }

  async mustRun(command: string[], options = {}): Promise<void> {
    const { code, stderr } = await this.run(command, options);
    assertEquals(code, 0, stderr);
  }

  synced(): string[] {
    return idsOf(Deno.readTextFileSync(`${this.path}/audit.ndjson`));
  }
}

/** Entries of the days that the page reads. */
function entries(): Entry[] {
  return Array.from({ length: 30 }, (_, i) => ({
    created_at: `2026-11-${String(i % 20 + 1).padStart(2, "0")}T10:00:${i}Z`,
  }));
}

describe("docs/integrating.md", () => {
  it("has commands that all run, on the log as it should be read", async () => {
    const organization = await newOrganization(admin);
    await writeEntries(organization.id, [
      ...entries(),
      { created_at: "2026-11-20T23:59:59.999Z", action: "agent_added", data: {} },
    ]);
    const { outputs, outputOf } = await runRecipes({
      AUDIT_LOG_URL,
      AUDIT_LOG_API_KEY: organization.token,
      PATH: `${INSTALLED}/node_modules/.bin:${Deno.env.get("PATH")}`,
    });

    assertEquals(outputOf("follow.sh sync"), "31");
    assertMatch(outputOf("--out=audit.csv"), /31 of 31 entries are in audit\.csv/);
    assertEquals(outputOf("--retry 5"), '"total":31');
    assert(outputs.every((output) => output !== ""));
  });

  for (const [language, sync] of Object.entries(LANGUAGES)) {
    describe(`in ${language}`, () => {
      it("syncs every entry once, from a log that is being written to", async () => {
        const organization = await newOrganization(admin);
        await fill(organization, 2_500);
        const reader = new Reader(organization);
        const writing = writeOutOfOrder(sql, organization, 30);
        for (let i = 0; i < 4; i++) await reader.mustRun(sync);
        await writing;
        await reader.mustRun(sync);
        assertEquals(reader.synced(), await idsOfLog(sql, organization));
        await reader.mustRun(sync);
        assertEquals(reader.synced(), await idsOfLog(sql, organization));
        const { total } = await getPage(organization.token, "start=2026-11-01&end=9999-12-31");
        assertEquals(reader.synced().length, total);
      });

      it("waits when the limit is used up, and stops when the key is refused", async () => {
        const organization = await newOrganization(admin);
        await fill(organization, 10);
        const reader = new Reader(organization);
        await using proxy = startProxy((number, forward) =>
          number <= 2 ? tryAgain(429, 1) : forward()
        );
        await reader.mustRun(sync, { url: proxy.url });
        assertEquals(reader.synced().length, 10);
        await using refusing = startProxy(() => new Response("refused", { status: 401 }));
        const { code, stderr } = await new Reader(organization).run(sync, { url: refusing.url });
        assertNotEquals(code, 0);
        assertMatch(stderr, /401/);
      });

      it("shows the key to no other address", async () => {
        const organization = await newOrganization(admin);
        const shown: (string | null)[] = [];
        await using other = serveOnLoopback(({ headers }) => {
          shown.push(headers.get("Authorization"));
          return new Response(null, { status: 401 });
        });
        await using moved = startProxy(() => Response.redirect(other.url, 302));
        assertNotEquals((await new Reader(organization).run(sync, { url: moved.url })).code, 0);
        assert(shown.every((authorization) => authorization === null));
      });
    });
  }
});
