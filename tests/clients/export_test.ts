import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { parse as parseCsv } from "npm:csv-parse@7.0.3/sync";
import {
  age,
  AUDIT_LOG_URL,
  get,
  insertEntry,
  newLog,
  type Organization,
  type Page,
  randomFrom,
  sql,
} from "../helpers.ts";
import { hangUp } from "../loopback.ts";
import type { Ended } from "../run_program.ts";
import { type CliOptions, installCli, KILLED, mustRun, type Running, startCli } from "./cli.ts";
import { fill, newFilledLog } from "./log.ts";
import { type Behaviour, startProxy, tryAgain } from "./proxy.ts";

const INSTALLED = await installCli();
const SEED = Number(Deno.env.get("EXPORT_SEED") ?? Math.floor(Math.random() * 1e9));

/** What an export has to hold: each entry as JSON, as Postgres writes it, in order of its text. */
async function log({ id }: Organization): Promise<string[]> {
  const rows = await sql`
    select jsonb_build_object(
      'id', id, 'action', action, 'user_email', user_email, 'agent_name', agent_name, 'data', data,
      'created_at', to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
    )::text as entry
    from audit_log.audit_entries e where organization_id = ${id}`;
  return rows.map(({ entry }) => entry).sort();
}

/** What a file holds: each entry as JSON, as Postgres writes it, in order of its text. */
async function content(file: string): Promise<string[]> {
  const text = await Deno.readTextFile(file);
  const entries = file.endsWith(".csv") ? csvEntries(text) : text.split("\n").slice(0, -1);
  const rows =
    await sql`select entry::jsonb::text as entry from unnest(${entries}::text[]) as entry`;
  return rows.map(({ entry }) => entry).sort();
}

function csvEntries(text: string): string[] {
  // Every line break that is not quoted ends a record, as it does to most readers.
  const record_delimiter = ["\r\n", "\n", "\r"];
  const [header, ...records] = parseCsv(text, { record_delimiter }) as string[][];
  assertEquals(header, ["id", "created_at", "action", "user_email", "agent_name", "data"]);
  return records.map(([id, created_at, action, user_email, agent_name, data]) =>
    JSON.stringify({ id, created_at, action, user_email, agent_name })
      .replace(/}$/, () => `,"data":${data}}`)
  );
}

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

/** Asserts that a file has the whole log of an organization, each entry once. */
async function assertWhole(folder: Folder, name: string, organization: Organization) {
  assertEquals(await content(folder.file(name)), await log(organization));
}

/** Between the command and the API; keeps the real limit away. */
function proxyFor({ apiKeyId }: Organization, behaviour: Behaviour) {
  return startProxy((number, forward) =>
    behaviour(number, async () => {
      await age(sql, apiKeyId, "1 minute");
      return await forward();
    })
  );
}

/** Answers that are no page, or not a whole one. */
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
    it(`writes every entry once, every value exact, to ${name}, and later what is new, on ${on}`, async () => {
      const organization = await newFilledLog(2_345, 11, 10);
      using folder = new Folder();
      const run = { key: organization.token, on };
      const { stdout, stderr } = await folder.export(name, run);
      // It shows no progress, because this is no terminal.
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

  it("writes an entry as the API does, to the byte", async () => {
    const { token } = await newFilledLog(30);
    using folder = new Folder();
    await folder.export("log.ndjson", { key: token });
    const body = await (await get(token, "start=0001-01-01&end=9999-12-31&limit=1000")).text();
    const lines = folder.read("log.ndjson").trimEnd().replaceAll("\n", ",\n");
    assertStringIncludes(body, `"items":[${lines}]`);
  });

  it("exports an empty log", async () => {
    const { token } = await newLog();
    using folder = new Folder();
    await folder.export("empty.ndjson", { key: token });
    await folder.export("empty.csv", { key: token });
    assertEquals(folder.read("empty.ndjson"), "");
    assertEquals(folder.read("empty.csv"), "id,created_at,action,user_email,agent_name,data\r\n");
  });

  it("exports only the days and the action that it is asked for", async () => {
    const organization = await newFilledLog(300, 11, 10);
    using folder = new Folder();
    const args = ["--start=2026-11-12", "--end=2026-11-13", "--action=agent_added"];
    await folder.export("some.ndjson", { key: organization.token, args });
    const isAsked = (text: string) => /"agent_added"/.test(text) && /"2026-11-1[23]T/.test(text);
    assertEquals(
      await content(folder.file("some.ndjson")),
      (await log(organization)).filter(isAsked),
    );
  });

  for (const [name, kills] of [["log.ndjson", 30], ["log.csv", 10]] as const) {
    it(`has every entry once after ${kills} times kill -9 while late ones are written, in ${name}`, async () => {
      console.log(`EXPORT_SEED=${SEED}`);
      const random = randomFrom(SEED);
      const organization = await newFilledLog(5_000, 11, 10);
      using folder = new Folder();
      let running: Running | undefined;
      let answersLeft = 0;
      await using proxy = proxyFor(organization, async (_number, forward) => {
        const response = await forward();
        const { has_more }: Page = await response.clone().json();
        // One that has caught up would only wait.
        if (--answersLeft === 0 || !has_more) {
          setTimeout(() => running?.process.kill("SIGKILL"), random(12));
        }
        return response;
      });
      const run = { url: proxy.url, key: organization.token };
      for (let kill = 0; kill < kills; kill++) {
        // Committed after what comes next, and before it in time.
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
        // As if it had been in the middle of writing a page.
        if (random(3) === 0) {
          Deno.writeTextFileSync(folder.file(name), "half an en", { append: true });
        }
      }
      await folder.export(name, run);
      await assertWhole(folder, name, organization);
    });
  }

  it("goes on after a write that stopped in its middle", async () => {
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

  it("follows: adds entries as they are written, until it is ended", async () => {
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
      // A 429 is no failure: these are more than ten.
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

  it("says what to do when the cursor is refused, and leaves the file as it is", async () => {
    const [organization, another] = [await newFilledLog(10), await newLog()];
    using folder = new Folder();
    const { token } = organization;
    await folder.export("log.ndjson", { key: token });
    const others: Run[] = [
      { key: token, args: ["--start=2026-11-02"] },
      { key: token, args: ["--action=agent_added"] },
      { key: another.token },
    ];
    for (const other of others) {
      const { code, stderr } = await folder.run("log.ndjson", other);
      assertEquals(code, 2, stderr);
      assertMatch(stderr, /saved cursor belongs to another --start, .* give the same as before/);
      assertStringIncludes(stderr, "Start again with after=beginning");
    }
    await fill(organization, 3);
    await folder.export("log.ndjson", { key: token });
    await assertWhole(folder, "log.ndjson", organization);
  });

  it("touches no file that it has not written, or that has lost something since", async () => {
    const run = { key: (await newFilledLog(10)).token };
    using folder = new Folder();
    Deno.writeTextFileSync(folder.file("mine.csv"), "mine");
    await folder.export("log.csv", run);
    Deno.truncateSync(folder.file("log.csv"), 700);
    for (const name of ["mine.csv", "log.csv"]) {
      const before = folder.read(name);
      const { code, stderr } = await folder.run(name, run);
      assertEquals([code, folder.read(name)], [2, before]);
      assertMatch(stderr, /is not as .*\.progress says: move both away/);
    }
  });

  it("runs alone on a file", async () => {
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

  it("shows the key nowhere, whatever is answered", async () => {
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

  describe("stops at once, asks at most once, and says what to do, given", () => {
    const moved: Behaviour = () => Response.redirect("http://127.0.0.1:9/", 302);
    const passOn: Behaviour = (_number, forward) => forward();
    const cases: [name: string, run: Run, message: RegExp, behaviour?: Behaviour][] = [
      ["a query that is invalid", { args: ["--start=2026-02-30"] }, /\(400\)\. Correct .*02-30/s],
      ["a redirect", {}, /\(302\)\. Is AUDIT_LOG_URL right\? The key goes nowhere else\.\n/, moved],
      ["no file", { args: ["--out="] }, /^--out: /],
      ["no address", { url: "example.com" }, /^AUDIT_LOG_URL must be an https address/],
      ["an open connection", { url: "http://example.com/" }, /^AUDIT_LOG_URL .* read the key/],
      ["no key", { key: "" }, /^AUDIT_LOG_API_KEY must be an API key/],
    ];
    for (const [name, run, message, behaviour = passOn] of cases) {
      it(name, async () => {
        const organization = await newLog();
        using folder = new Folder();
        await using proxy = proxyFor(organization, behaviour);
        const all = { url: proxy.url, key: organization.token, ...run };
        const { code, stderr } = await folder.run("log.csv", all);
        assertEquals(code, 2, stderr);
        assertMatch(stderr, message);
        assert(proxy.requestedAt.length <= 1);
      });
    }
  });
});
