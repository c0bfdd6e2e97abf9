import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { parse as parseCsv } from "npm:csv-parse@7.0.3/sync";
import {
  age,
  AUDIT_LOG_URL,
  get,
  newOrganization,
  type Organization,
  type Page,
  randomFrom,
  signUp,
  sql,
  UNKNOWN_TOKEN,
} from "../helpers.ts";
import { hangUp } from "../loopback.ts";
import { type Ended, textOf } from "../run_program.ts";
import { commandsOf, installCli } from "./installed_cli.ts";
import { type Behaviour, startProxy, tryAgain } from "./proxy.ts";

const COMMANDS = commandsOf(await installCli());
const SEED = Number(Deno.env.get("EXPORT_SEED") ?? Math.floor(Math.random() * 1e9));
const LONGEST_RUN_MS = 30_000;
const KILLED = 137;

const admin = await signUp();

/** Values that a careless writer of JSON or CSV breaks. */
const AWKWARD = [
  'say "hi", twice',
  "two\r\nlines",
  "two\nlines",
  "two\rlines",
  " spaces, at the ends ",
  "=1+1",
  "日本語 🦕 e\u0301 \u2028",
  "back\\slash\\",
  '","items":[{"',
  "",
];
const AWKWARD_DATA = [
  '{"n": 9007199254740993, "x": 1.10, "big": 123456789012345678901234567890, "tiny": 1e-30}',
  '{"__proto__": {"a": 0}, "text": "},{\\"id\\":[\\\\", "list": [1.0, -0.00, null, [{}, {"id": 1}]]}',
  "{}",
];

/** Writes so many entries, evenly over some days of March 2026. */
async function fill(organizationId: string, count: number, firstDay = 1, days = 10): Promise<void> {
  await sql`
    insert into audit_log.audit_entries
      (organization_id, created_at, action, user_email, agent_name, data)
    select ${organizationId}, make_timestamptz(2026, 3, ${firstDay}, 0, 0, 0, 'UTC')
        + n * ${days}::int * interval '1 day' / ${count}::int,
      (array['agent_added', 'conversation_created', 'feedback_given'])[1 + n % 3],
      'user' || n || '@example.com',
      (${AWKWARD}::text[])[1 + n % ${AWKWARD.length}::int],
      (${AWKWARD_DATA}::text[])[1 + n % ${AWKWARD_DATA.length}::int]::jsonb
    from generate_series(0, ${count}::int - 1) as n`;
}

/** A new organization with so many entries. */
async function newLog(count: number): Promise<Organization> {
  const organization = await newOrganization(admin);
  if (count > 0) await fill(organization.id, count);
  return organization;
}

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

/** How a test runs the command; everything else is as in its usage text. */
interface Run {
  url?: string;
  key?: string;
  args?: string[];
  on?: keyof typeof COMMANDS;
  /** Where a file can grow no more: the write that tries ends the process in its middle. */
  longestFile?: number;
}

interface Running {
  process: Deno.ChildProcess;
  output: Promise<Ended>;
}

/** A folder to export to, and the command. */
class Folder {
  readonly path = Deno.makeTempDirSync();

  file(name: string): string {
    return `${this.path}/${name}`;
  }

  start(
    name: string,
    { url = AUDIT_LOG_URL, key = "", args = [], longestFile, on = "Node" }: Run,
  ): Running {
    const command = [...COMMANDS[on], "export", `--out=${this.file(name)}`, ...args];
    if (longestFile) {
      command.unshift("sh", "-c", `ulimit -f ${Math.floor(longestFile / 512)}; exec "$@"`, "sh");
    }
    const [program = "", ...rest] = command;
    const process = new Deno.Command(program, {
      args: rest,
      env: { AUDIT_LOG_URL: url, AUDIT_LOG_API_KEY: key, NO_COLOR: "1" },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    // Or else a run that hangs hangs the tests; so it ends with code 143, which none expects.
    const hangs = setTimeout(() => process.kill("SIGTERM"), LONGEST_RUN_MS);
    const output = process.output().finally(() => clearTimeout(hangs)).then(textOf);
    return { process, output };
  }

  async run(name: string, run: Run): Promise<Ended> {
    return await this.start(name, run).output;
  }

  /** Runs an export that must succeed. */
  async export(name: string, run: Run): Promise<Ended> {
    const output = await this.run(name, run);
    assertEquals(output.code, 0, output.stderr);
    return output;
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

/** Answers that are no page, or not the whole one. */
async function brokenAnswers(page: Response): Promise<Response[]> {
  const { headers } = page;
  const body = await page.text();
  const bytes = new TextEncoder().encode(body);
  const { next: _, ...other } = JSON.parse(body);
  return [
    new Response(hangUp(bytes.subarray(0, 2_000)), { headers }),
    ...[body.slice(0, -1), body.slice(0, 2_000), "", "<html>Sign in</html>", "null", "{}"]
      .map((text) => new Response(text, { headers })),
    Response.json(other),
    new Response("Busy", { status: 503 }),
    new Response("No", { status: 403 }),
    new Response("Slow down", { status: 429 }),
  ];
}

describe("public-audit-log export", () => {
  for (
    const [on, name] of [["Node", "log.ndjson"], ["Node", "log.csv"], ["Deno", "log.csv"]] as const
  ) {
    it(`writes every entry once, every value exact, to ${name}, and later what is new, on ${on}`, async () => {
      const organization = await newLog(2_345);
      using folder = new Folder();
      const run = { key: organization.token, on };
      const { stdout, stderr } = await folder.export(name, run);
      // To a pipe it shows no progress.
      assertEquals([stdout, stderr], [`2345 of 2345 entries are in ${folder.file(name)}\n`, ""]);
      await assertWhole(folder, name, organization);
      const before = await Deno.readTextFile(folder.file(name));

      await fill(organization.id, 3, 2, 5);
      await folder.export(name, run);
      await assertWhole(folder, name, organization);
      assert((await Deno.readTextFile(folder.file(name))).startsWith(before));
      assertEquals(folder.files(), [name, `${name}.progress`]);
    });
  }

  it("writes an entry as the API does, to the byte", async () => {
    const { id, token } = await newLog(30);
    await fill(id, 1);
    using folder = new Folder();
    await folder.export("log.ndjson", { key: token });
    const body = await (await get(token, "start=0001-01-01&end=9999-12-31&limit=1000")).text();
    const lines = await Deno.readTextFile(folder.file("log.ndjson"));
    assertStringIncludes(body, `"items":[${lines.trimEnd().replaceAll("\n", ",\n")}]`);
  });

  it("exports an empty log, and only the days and the action that it is asked for", async () => {
    const { token } = await newOrganization(admin);
    using folder = new Folder();
    await folder.export("empty.ndjson", { key: token });
    await folder.export("empty.csv", { key: token });
    assertEquals(Deno.readTextFileSync(folder.file("empty.ndjson")), "");
    const header = "id,created_at,action,user_email,agent_name,data\r\n";
    assertEquals(Deno.readTextFileSync(folder.file("empty.csv")), header);

    const organization = await newLog(300);
    const args = ["--start=2026-03-02", "--end=2026-03-03", "--action=agent_added"];
    await folder.export("some.ndjson", { key: organization.token, args });
    assertEquals(
      await content(folder.file("some.ndjson")),
      (await log(organization)).filter((text) =>
        /"agent_added"/.test(text) && /"2026-03-0[23]T/.test(text)
      ),
    );
  });

  for (const [name, kills] of [["log.ndjson", 100], ["log.csv", 20]] as const) {
    it(`has every entry once after ${kills} times kill -9 while late ones are written, in ${name}`, async () => {
      console.log(`EXPORT_SEED=${SEED}`);
      const random = randomFrom(SEED);
      const organization = await newLog(5_000);
      using folder = new Folder();
      let running: Running | undefined;
      let answersLeft = 0;
      await using proxy = proxyFor(organization, async (_number, forward) => {
        const response = await forward();
        const { has_more }: Page = await response.clone().json();
        // A caught-up one would only wait.
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
        await late`
          insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name)
          values (${organization.id}, '2026-03-01', 'agent_added', 'late@example.com', 'Late')`;
        await fill(organization.id, 1 + random(700), 1 + random(10), 1);
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
    const organization = await newLog(2_500);
    using folder = new Folder();
    const run = { key: organization.token };
    await folder.export("whole.csv", run);
    const { size } = Deno.statSync(folder.file("whole.csv"));
    for (const share of [0.2, 0.7, 0.95]) {
      const file = `${share}.csv`;
      const { code } = await folder.run(file, { ...run, longestFile: size * share });
      assert(code !== 0 && Deno.statSync(folder.file(file)).size > 0, `${code}: ${share}`);
      await folder.export(file, run);
      await assertWhole(folder, file, organization);
    }
  });

  it("follows: adds entries as they are written, until it is ended", async () => {
    const organization = await newLog(3);
    using folder = new Folder();
    await using proxy = proxyFor(organization, async (number, forward) => {
      if (number === 2) await fill(organization.id, 2);
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
    const organization = await newLog(13_500);
    using folder = new Folder();
    await using proxy = proxyFor(organization, async (number, forward) => {
      const answer = await forward();
      const broken = number % 2 === 1 ? await brokenAnswers(answer.clone()) : [];
      return broken[(number - 1) / 2] ?? answer;
    });
    const run = { url: proxy.url, key: organization.token };
    const { stderr } = await folder.export("log.ndjson", run);
    await assertWhole(folder, "log.ndjson", organization);
    assertEquals(stderr.match(/Trying again/g)?.length, 11, stderr);
  });

  it("waits as long as Retry-After says, and a 429 is no failure", async () => {
    const organization = await newLog(10);
    using folder = new Folder();
    await using proxy = proxyFor(
      organization,
      (number, forward) => number <= 15 ? tryAgain(429, number === 1 ? 1 : 0) : forward(),
    );
    await folder.export("log.ndjson", { url: proxy.url, key: organization.token });
    const [first = 0, second = 0] = proxy.requestedAt;
    assert(second - first >= 990);
    await assertWhole(folder, "log.ndjson", organization);
  });

  it("gives up with code 1 after ten failures in a row, and the same command goes on", async () => {
    const organization = await newLog(1_500);
    using folder = new Folder();
    let isDown = true;
    await using proxy = proxyFor(
      organization,
      (number, forward) => number > 1 && isDown ? tryAgain(503) : forward(),
    );
    const run = { url: proxy.url, key: organization.token };
    const { code, stderr } = await folder.run("log.ndjson", run);
    assertEquals([code, proxy.requestedAt.length], [1, 11]);
    assertMatch(stderr, /\n127\S+: status 503\. Gave up: run the same command again\.\n$/);
    isDown = false;
    await folder.export("log.ndjson", run);
    assertEquals(proxy.requestedAt.length, 12);
    await assertWhole(folder, "log.ndjson", organization);
  });

  it("says what to do when the cursor is refused, and leaves the file as it is", async () => {
    const [organization, another] = [await newLog(10), await newLog(5)];
    using folder = new Folder();
    const { token } = organization;
    await folder.export("log.ndjson", { key: token });
    const others: Run[] = [
      { key: token, args: ["--start=2026-03-02"] },
      { key: token, args: ["--action=agent_added"] },
      { key: another.token },
    ];
    for (const other of others) {
      const { code, stderr } = await folder.run("log.ndjson", other);
      assertEquals(code, 2, stderr);
      assertMatch(
        stderr,
        /place that was saved belongs to another --start, .* give the same as before/,
      );
      assertStringIncludes(stderr, "Start again with after=beginning");
    }
    await fill(organization.id, 3);
    await folder.export("log.ndjson", { key: token });
    await assertWhole(folder, "log.ndjson", organization);
  });

  it("touches no file that it has not written, or that has lost something since", async () => {
    const organization = await newLog(10);
    using folder = new Folder();
    const run = { key: organization.token };
    Deno.writeTextFileSync(folder.file("mine.csv"), "mine");
    await folder.export("log.csv", run);
    Deno.truncateSync(folder.file("log.csv"), 700);
    for (const name of ["mine.csv", "log.csv"]) {
      const before = Deno.readTextFileSync(folder.file(name));
      const { code, stderr } = await folder.run(name, run);
      assertEquals([code, Deno.readTextFileSync(folder.file(name))], [2, before]);
      assertMatch(stderr, /is not as .*\.progress says: move both away/);
    }
  });

  it("runs alone on a file", async () => {
    const organization = await newLog(10);
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
    assertMatch(stderr, /log\.csv is in use: another process is at it\.\n$/);
    await assertWhole(folder, "log.csv", organization);
  });

  it("shows the key nowhere, whatever is answered", async () => {
    const organization = await newLog(10);
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
    seen.push(...folder.files().map((name) => Deno.readTextFileSync(folder.file(name))));
    assert(!seen.some((text) => text.includes(token)));
  });

  describe("stops at once, asks at most once, and says what to do", () => {
    const cases: [name: string, code: number, message: RegExp, run: Run, behaviour?: Behaviour][] =
      [
        ["the key is refused", 3, /^The API refuses the key: .* Set an active one/, {
          key: UNKNOWN_TOKEN,
        }],
        [
          "the query is invalid",
          2,
          /\(400\)\. Correct the arguments\.\n.*2026-02-30.*must be one of: agent_added/,
          { args: ["--start=2026-02-30", "--action="] },
        ],
        ["an address below", 2, /\(404\)\. Is AUDIT_LOG_URL right\?/, {
          url: `${AUDIT_LOG_URL}/x`,
        }],
        [
          "a redirect: the key goes nowhere else",
          2,
          /\(302\)\. Is AUDIT_LOG_URL right\? The key goes nowhere else\.\n/,
          {},
          () => Response.redirect("http://127.0.0.1:9/", 302),
        ],
        [
          "something before the API refuses",
          2,
          /\(400\)\. Correct the arguments\.\n<html>/,
          {},
          () => new Response("<html>No</html>", { status: 400 }),
        ],
        ["an unknown option", 2, /^Unknown option '--acton'/, { args: ["--acton=x"] }],
        ["no file", 2, /^--out: /, { args: ["--out="] }],
        ["a folder that is not there", 2, /^ENOENT.*nowhere/, { args: ["--out=/nowhere/log.csv"] }],
        ["an address that is none", 2, /^AUDIT_LOG_URL must be an https address/, {
          url: "example.com",
        }],
        ["an open connection", 2, /^AUDIT_LOG_URL .* read the key/, { url: "http://example.com/" }],
        ["no key", 2, /^AUDIT_LOG_API_KEY must be an API key/, { key: "" }],
      ];
    for (const [name, expected, message, run, behaviour] of cases) {
      it(name, async () => {
        const organization = await newOrganization(admin);
        using folder = new Folder();
        await using proxy = proxyFor(organization, behaviour ?? ((_n, forward) => forward()));
        const { code, stderr } = await folder.run("log.csv", {
          url: proxy.url,
          key: organization.token,
          ...run,
        });
        assertEquals(code, expected, stderr);
        assertMatch(stderr, message);
        assert(proxy.requestedAt.length <= 1);
      });
    }
  });
});
