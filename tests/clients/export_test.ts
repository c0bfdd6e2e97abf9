import { assert, assertEquals, assertMatch } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { parse as parseCsv } from "npm:csv-parse@7.0.3/sync";
import {
  age,
  AUDIT_LOG_URL,
  insertEntry,
  newLog,
  type Organization,
  type Page,
  randomFrom,
  send,
  sql,
} from "../helpers.ts";
import { hangUp } from "../loopback.ts";
import type { Ended } from "../run_program.ts";
import { type CliOptions, installCli, KILLED, mustRun, type Running, startCli } from "./cli.ts";
import { fill, newFilledLog } from "./log.ts";
import { type Behaviour, startProxy, tryAgain } from "./proxy.ts";

const INSTALLED = await installCli();
const SEED = Number(Deno.env.get("EXPORT_SEED") ?? Math.floor(Math.random() * 1e9));

/** How a test runs the command. */
interface Run extends Omit<CliOptions, "env"> {
  url?: string;
  key?: string;
  args?: string[];
}

/** Exports to files in a folder. */
class Folder {
  readonly path = Deno.makeTempDirSync();

  file(name: string): string {
    return `${this.path}/${name}`;
  }

  read(name: string): string {
    return Deno.readTextFileSync(this.file(name));
  }

  start(name: string, { url = AUDIT_LOG_URL, key = "", args = [], ...options }: Run): Running {
    const env = { AUDIT_LOG_URL: url, AUDIT_LOG_API_KEY: key };
    const all = ["export", `--out=${this.file(name)}`, ...args];
    return startCli(INSTALLED, all, { env, ...options });
  }

  async run(name: string, run: Run): Promise<Ended> {
    return await this.start(name, run).output;
  }

  /** Runs an export that must succeed. */
  async export(name: string, run: Run): Promise<Ended> {
    return await mustRun(this.run(name, run));
  }

  files(): string[] {
    return Array.from(Deno.readDirSync(this.path), ({ name }) => name).sort();
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.path, { recursive: true });
  }
}

/** Asserts that a file has each entry of an organization once, with the same bytes as the database. */
async function assertWhole(folder: Folder, name: string, { id }: Organization): Promise<void> {
  const rows = await sql`
    select audit_log_private.entry_line(e) as line from audit_log.audit_entries e where organization_id = ${id}`;
  const text = folder.read(name);
  const lines = name.endsWith(".csv") ? csvLines(text) : text.split("\n").slice(0, -1);
  assertEquals(lines.sort(), rows.map(({ line }) => line).sort());
}

/** Reads a CSV file as lines of NDJSON. */
function csvLines(text: string): string[] {
  // To most readers, every line break that is not quoted ends a record.
  const record_delimiter = ["\r\n", "\n", "\r"];
  const [header, ...records] = parseCsv(text, { record_delimiter }) as string[][];
  assertEquals(header, ["id", "created_at", "action", "user_email", "agent_name", "data"]);
  return records.map(([id, created_at, action, user_email, agent_name, data]) =>
    JSON.stringify({ id, created_at, action, user_email, agent_name })
      .replace(/}$/, () => `,"data":${data}}`)
  );
}

/** Starts a proxy between the command and the API. The key never meets its limit there. */
function proxyFor({ apiKeyId }: Organization, behaviour: Behaviour) {
  return startProxy((number, forward) =>
    behaviour(number, async () => {
      await age(sql, apiKeyId, "1 minute");
      return await forward();
    })
  );
}

/** Makes answers that are no page, or not a whole one. */
async function brokenAnswers(page: Response): Promise<Response[]> {
  const { headers } = page;
  const body = await page.text();
  const { next: _, ...withoutNext } = JSON.parse(body);
  const texts = [body.slice(0, -1), "", "<html>Sign in</html>", "null"];
  return [
    new Response(hangUp(new TextEncoder().encode(body).subarray(0, 2_000)), { headers }),
    ...texts.map((text) => new Response(text, { headers })),
    Response.json(withoutNext),
    ...[503, 403, 429].map((status) => new Response("No", { status })),
  ];
}

describe("public-audit-log export", () => {
  for (const [on, name] of [["Node", "log.csv"], ["Deno", "log.ndjson"]] as const) {
    it(`writes every entry and its values exactly once to ${name}, and new ones later, on ${on}`, async () => {
      const organization = await newFilledLog(2_345, 11, 10);
      using folder = new Folder();
      const run = { key: organization.token, on };
      const { stdout, stderr } = await folder.export(name, run);
      // It shows its progress on a terminal only.
      assertEquals([stdout, stderr], [`2345 of 2345 entries are in ${folder.file(name)}\n`, ""]);
      await assertWhole(folder, name, organization);
      const before = folder.read(name);

      await fill(organization, 3, 12, 5);
      await folder.export(name, run);
      await assertWhole(folder, name, organization);
      assert(folder.read(name).startsWith(before));
      assertEquals(folder.files(), [name, `${name}.progress`]);
    });
  }

  it("writes the days and the action that it is asked for as the API does, to the byte", async () => {
    const { token } = await newFilledLog(300, 11, 10);
    using folder = new Folder();
    const some = ["start=2026-11-12", "end=2026-11-13", "action=agent_added"];
    const none = ["start=2020-01-01", "end=2020-01-02"];
    const headers = { Authorization: `Bearer ${token}`, Accept: "application/x-ndjson" };
    for (const asked of [["start=0001-01-01", "end=9999-12-31"], some, none]) {
      const [name, args] = [`${asked[0]}.ndjson`, asked.map((option) => `--${option}`)];
      await folder.export(name, { key: token, args });
      const page = await send(`?${asked.join("&")}&limit=1000`, { headers });
      assertEquals(folder.read(name), await page.text());
    }
    await folder.export("none.csv", { key: token, args: none.map((option) => `--${option}`) });
    const header = "id,created_at,action,user_email,agent_name,data\r\n";
    assertEquals(folder.read("none.csv"), header);
  });

  for (const [name, kills] of [["log.ndjson", 30], ["log.csv", 10]] as const) {
    it(`writes every entry once to ${name} through ${kills} kills, while late entries are written`, async () => {
      console.log(`EXPORT_SEED=${SEED}`);
      const random = randomFrom(SEED);
      const organization = await newFilledLog(5_000, 11, 10);
      using folder = new Folder();
      let running: Running | undefined;
      let answersLeft = 0;
      await using proxy = proxyFor(organization, async (_number, forward) => {
        const response = await forward();
        const { has_more }: Page = await response.clone().json();
        // When it has caught up, it only waits.
        if (--answersLeft === 0 || !has_more) {
          setTimeout(() => running?.process.kill("SIGKILL"), random(12));
        }
        return response;
      });
      const run = { url: proxy.url, key: organization.token };
      for (let kill = 0; kill < kills; kill++) {
        // Is committed after the next entries, and has an earlier time.
        const late = await sql.reserve();
        await late`begin`;
        await insertEntry(late, organization.id, { created_at: "2026-11-11" });
        await fill(organization, 1 + random(700), 11 + random(10));
        answersLeft = 1 + random(2);
        running = folder.start(name, { ...run, args: ["--follow"] });
        const { code, stderr } = await running.output;
        assertEquals(code, KILLED, stderr);
        await late`commit`;
        late.release();
        // As if it had been killed while it wrote a page.
        if (random(3) === 0) {
          Deno.writeTextFileSync(folder.file(name), "half an en", { append: true });
        }
      }
      await folder.export(name, run);
      await assertWhole(folder, name, organization);
    });
  }

  it("goes on after the disk was full in the middle of a write", async () => {
    const organization = await newFilledLog(2_500);
    using folder = new Folder();
    const run = { key: organization.token };
    await folder.export("whole.csv", run);
    const { size } = Deno.statSync(folder.file("whole.csv"));
    for (const share of [0.2, 0.9]) {
      const file = `${share}.csv`;
      const { code } = await folder.run(file, { ...run, longestFile: size * share });
      assert(code !== 0 && Deno.statSync(folder.file(file)).size > 0, `${code}: ${share}`);
      await folder.export(file, run);
      await assertWhole(folder, file, organization);
    }
  });

  it("adds entries as they are written with --follow, until it is ended", async () => {
    const organization = await newFilledLog(3);
    using folder = new Folder();
    await using proxy = proxyFor(organization, async (number, forward) => {
      if (number === 2) await fill(organization, 2);
      if (number === 3) running.process.kill("SIGINT");
      return await forward();
    });
    const args = ["--follow"];
    const running = folder.start("log.ndjson", { url: proxy.url, key: organization.token, args });
    assertEquals((await running.output).code, 130);
    await assertWhole(folder, "log.ndjson", organization);
    const [first = 0, second = 0] = proxy.requestedAt;
    assert(second - first >= 1_900, "leaves the key half of its requests");
  });

  it("takes no broken answer for a page", async () => {
    const organization = await newFilledLog(9_500);
    using folder = new Folder();
    let count = 0;
    await using proxy = proxyFor(organization, async (number, forward) => {
      const answer = await forward();
      if (number % 2 === 0) return answer;
      const broken = await brokenAnswers(answer.clone());
      count = broken.length;
      return broken[(number - 1) / 2] ?? answer;
    });
    const run = { url: proxy.url, key: organization.token };
    const { stderr } = await folder.export("log.ndjson", run);
    await assertWhole(folder, "log.ndjson", organization);
    assertEquals(stderr.match(/Trying again/g)?.length, count, stderr);
  });

  it("waits as Retry-After says, gives up after ten failures in a row, and goes on when run again", async () => {
    const organization = await newFilledLog(1_500);
    using folder = new Folder();
    let isDown = true;
    await using proxy = proxyFor(organization, (number, forward) => {
      // A 429 is no failure, so there may be more than ten.
      if (number <= 15) return tryAgain(429, number === 1 ? 1 : 0);
      return number > 16 && isDown ? tryAgain(503) : forward();
    });
    const run = { url: proxy.url, key: organization.token };
    const { code, stderr } = await folder.run("log.ndjson", run);
    assertEquals([code, proxy.requestedAt.length], [1, 15 + 1 + 10]);
    assertMatch(stderr, /\n127\S+: status 503\. Gave up: run the same command again\.\n$/);
    const [first = 0, second = 0] = proxy.requestedAt;
    assert(second - first >= 990);
    isDown = false;
    await folder.export("log.ndjson", run);
    assertEquals(proxy.requestedAt.length, 27);
    await assertWhole(folder, "log.ndjson", organization);
  });

  it("stops at once and says what to do when it cannot go on, and leaves the files as they are", async () => {
    const [organization, another] = [await newFilledLog(10), await newLog()];
    const { token: key } = organization;
    using folder = new Folder();
    await folder.export("log.ndjson", { key });
    await folder.export("cut.csv", { key });
    Deno.truncateSync(folder.file("cut.csv"), 700);
    Deno.writeTextFileSync(folder.file("mine.csv"), "mine");
    await using proxy = proxyFor(organization, (_number, forward) => forward());
    await using moved = startProxy(() => Response.redirect(AUDIT_LOG_URL, 302));
    const otherCursor =
      /saved cursor belongs to another --start, .* give the same as before.* Start again with after=beginning/s;
    const cases: [file: string, run: Run, message: RegExp][] = [
      ["log.ndjson", { args: ["--start=2026-11-02"] }, otherCursor],
      ["log.ndjson", { args: ["--action=agent_added"] }, otherCursor],
      ["log.ndjson", { key: another.token }, otherCursor],
      ["mine.csv", {}, /is not as .*\.progress says: move both away/],
      ["cut.csv", {}, /is not as .*\.progress says: move both away/],
      ["new.csv", { args: ["--start=2026-02-30"] }, /\(400\)\. Correct .*02-30/s],
      [
        "new.csv",
        { url: moved.url },
        /\(302\)\. Is AUDIT_LOG_URL right\? The key goes nowhere else/,
      ],
      ["new.csv", { url: `${AUDIT_LOG_URL}/seals` }, /\(400\)\. Is AUDIT_LOG_URL right\?/],
      ["new.csv", { url: "" }, /^AUDIT_LOG_URL is not set/],
      ["new.csv", { url: "example.com" }, /^AUDIT_LOG_URL must be an https address/],
      ["new.csv", { url: "http://example.com/" }, /^AUDIT_LOG_URL .* read the key/],
      ["new.csv", { key: "" }, /^AUDIT_LOG_API_KEY must be an API key/],
      ["new.csv", { args: ["--out="] }, /^--out: /],
    ];
    const names = ["log.ndjson", "cut.csv", "mine.csv"];
    const before = names.map((name) => folder.read(name));
    for (const [name, run, message] of cases) {
      const asked = proxy.requestedAt.length;
      const { code, stderr } = await folder.run(name, { url: proxy.url, key, ...run });
      assertEquals(code, 2, stderr);
      assertMatch(stderr, message);
      assert(proxy.requestedAt.length <= asked + 1);
    }
    assertEquals(names.map((name) => folder.read(name)), before);
    await fill(organization, 3);
    await folder.export("log.ndjson", { key });
    await assertWhole(folder, "log.ndjson", organization);
  });

  it("refuses to run twice on a file", async () => {
    const organization = await newFilledLog(10);
    using folder = new Folder();
    const refused = Promise.withResolvers<Ended>();
    await using proxy = proxyFor(organization, async (_number, forward) => {
      refused.resolve(folder.run("log.csv", { key: organization.token }));
      await refused.promise;
      return await forward();
    });
    await folder.export("log.csv", { url: proxy.url, key: organization.token });
    const { code, stderr } = await refused.promise;
    assertEquals(code, 2);
    assertMatch(stderr, /log\.csv is in use: wait until the other process has ended\.\n$/);
    await assertWhole(folder, "log.csv", organization);
  });

  it("shows the key nowhere, whatever the API answers", async () => {
    const organization = await newFilledLog(10);
    const { token } = organization;
    using folder = new Folder();
    await using proxy = proxyFor(organization, (number, forward) => {
      if (number > 3) return forward();
      const headers = { "X-Request-Id": token, "Retry-After": "0" };
      return new Response(token, { status: [500, 200, 400][number - 1] ?? 200, headers });
    });
    const run = { url: proxy.url, key: token };
    const outputs = [
      await folder.run("log.csv", run),
      await folder.export("log.csv", run),
      await folder.run("log.csv", { args: [token] }),
      await folder.run("log.csv", { args: [`--key=${token}`] }),
      await folder.run("log.csv", { key: `${token}\r` }),
    ];
    assertEquals(outputs.map(({ code }) => code), [2, 0, 2, 2, 2]);
    const seen = outputs.flatMap(({ stdout, stderr }) => [stdout, stderr]);
    seen.push(...folder.files().map((name) => folder.read(name)));
    assert(!seen.some((text) => text.includes(token)));
  });
});
