import { assert, assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { fileURLToPath } from "node:url";
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
import { runRecipes, unpackRecipes } from "./recipes.ts";

const admin = await signUp();
const folder = await Deno.makeTempDir();
await unpackRecipes(folder);
afterAll(() => Deno.remove(folder, { recursive: true }));

const LONGEST_RUN_MS = 60_000;
const DENO = [Deno.execPath(), "run", "--quiet", "--no-lock", "--allow-all", "--check"];

/** How each language runs a recipe of the page. */
const LANGUAGES: Record<string, Record<"sync" | "tail" | "siem", string[]>> = {
  curl: {
    sync: ["bash", "follow.sh", "sync", "cat >> audit.ndjson"],
    tail: ["bash", "tail.sh"],
    siem: ["bash", "follow.sh", "siem", "bash to_siem.sh"],
  },
  TypeScript: {
    sync: [...DENO, "sync.ts"],
    tail: [...DENO, "tail.ts"],
    siem: [...DENO, "siem.ts"],
  },
  Python: {
    sync: ["python3", "sync.py"],
    tail: ["python3", "tail.py"],
    siem: ["python3", "siem.py"],
  },
};

/** Takes what the recipes for a SIEM send, as Elasticsearch's `_bulk` does. */
function startSiem(answers: (Response | undefined)[] = []) {
  const received: string[] = [];
  const server = serveOnLoopback(async (request) => {
    const lines = (await request.text()).trimEnd().split("\n");
    const answer = answers.shift();
    if (answer) return answer;
    for (let i = 0; i < lines.length; i += 2) {
      const { index } = JSON.parse(lines[i] ?? "");
      const document = JSON.parse(lines[i + 1] ?? "");
      assertEquals(index._id, `${document.id}/${document.created_at}`);
      assertEquals(document["@timestamp"], document.created_at);
      received.push(document.id);
    }
    return Response.json({ errors: false, items: lines.length / 2 });
  });
  return { ...server, received };
}

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

  start(command: string[], { url = AUDIT_LOG_URL, siem = "" } = {}): Deno.ChildProcess {
    const [program = "", ...args] = command;
    return new Deno.Command(program, {
      args,
      cwd: this.path,
      env: {
        AUDIT_LOG_URL: url,
        AUDIT_LOG_API_KEY: this.#organization.token,
        SIEM_URL: siem,
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

/** Reads until the line with a text is there; all lines until then. */
async function readUntil(stream: ReadableStream<Uint8Array>, last: string): Promise<string> {
  let text = "";
  for await (const part of stream.pipeThrough(new TextDecoderStream())) {
    text += part;
    if (text.includes(last) && text.endsWith("\n")) break;
  }
  return text;
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
    await using siem = startSiem();
    const { outputs, outputOf } = await runRecipes({
      AUDIT_LOG_URL,
      AUDIT_LOG_API_KEY: organization.token,
      REPOSITORY: fileURLToPath(new URL("../..", import.meta.url)),
      SIEM_URL: siem.url,
    });

    assertMatch(outputOf("poll()"), /agent_added.*\n.*after=.*\n"has_more":false,"items":\[\]}$/s);
    assertEquals(outputOf("follow.sh sync"), "31");
    assertMatch(outputOf("export.ts"), /31 of 31 entries are in audit\.csv/);
    assertEquals(outputOf("--retry 5"), '"total":31');
    assertEquals(siem.received.length, 31);
    assertMatch(outputOf('end=2026-11-01"'), /"code":"invalid_parameters".*exit code 22/s);
    assertMatch(outputOf("pck_revoked"), /"code":"unauthorized".*exit code 22/s);
    assertMatch(outputOf("grep -i ratelimit"), /"default";r=\d+;t=\d+/);
    assert(outputs.every((output) => output !== ""));
  });

  for (const [language, { sync, tail, siem: load }] of Object.entries(LANGUAGES)) {
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

      it("tails every entry once, while it is written", async () => {
        const organization = await newOrganization(admin);
        const reader = new Reader(organization);
        await using running = reader.start(tail);
        await writeOutOfOrder(sql, organization, 40);
        await writeEntries(organization.id, [{
          // A first batch comes by time, later ones by transaction: it is the last of either.
          created_at: "9999-12-31T00:00:00Z",
          agent_name: "The last",
        }]);
        const lines = await readUntil(running.stdout, "The last");
        assertEquals(idsOf(lines), await idsOfLog(sql, organization));
        await running.stderr.cancel();
      });

      it("loads a SIEM, and delivers a page again that it has not taken", async () => {
        const organization = await newOrganization(admin);
        await fill(organization, 1_200);
        const reader = new Reader(organization);
        await using siem = startSiem([
          new Response("bad", { status: 400 }),
          Response.json({ errors: true }),
        ]);
        for (let i = 0; i < 2; i++) {
          assertNotEquals((await reader.run(load, { siem: siem.url })).code, 0);
        }
        await reader.mustRun(load, { siem: siem.url });
        assertEquals(siem.received.toSorted(), await idsOfLog(sql, organization));
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
