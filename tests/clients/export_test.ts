import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { parse as parseCsv } from "npm:csv-parse@7.0.3/sync";
import { fileURLToPath } from "node:url";
import {
  age,
  AUDIT_LOG_URL,
  connect,
  newOrganization,
  type Organization,
  type Page,
  pick,
  randomFrom,
  signUp,
  UNKNOWN_TOKEN,
} from "../helpers.ts";

const EXPORT = fileURLToPath(new URL("../../examples/export.ts", import.meta.url));
const SEED = Number(Deno.env.get("EXPORT_SEED") ?? Math.floor(Math.random() * 1e9));
const LONGEST_RUN_MS = 15_000;
const RANGE = { start: "2026-03-01", end: "2026-03-10" };

const sql = connect();
const admin = await signUp();
afterAll(() => sql.end());

/** Values that a careless writer of JSON or CSV breaks. */
const AWKWARD = [
  'say "hi", twice',
  "two\r\nlines",
  "two\nlines",
  "two\rlines",
  " spaces, at the ends ",
  "=1+1",
  "日本語 🦕 e\u0301 \u2028",
  "back\\slash, 'quotes', \t tab",
  '","',
  "",
];
const AWKWARD_DATA = [
  '{"n": 9007199254740993, "x": 1.10, "big": 123456789012345678901234567890, "tiny": 1e-30}',
  '{"__proto__": {"a": 0}, "text": "a,\\"b\\"\\nc", "list": [1.0, -0.00, null, true]}',
  "{}",
];

/** Writes so many entries, evenly over some days of March 2026. */
async function fill(organizationId: string, count: number, firstDay = 1, days = 10): Promise<void> {
  await sql`
    insert into public.audit_entries
      (organization_id, created_at, action, user_email, agent_name, data)
    select ${organizationId}, make_timestamptz(2026, 3, ${firstDay}, 0, 0, 0, 'UTC')
        + n * ${days}::int * interval '1 day' / ${count}::int,
      (array['agent_added', 'conversation_created', 'feedback_given'])[1 + n % 3]::public.audit_action,
      'user' || n || '@example.com',
      (${AWKWARD}::text[])[1 + n % ${AWKWARD.length}::int],
      (${AWKWARD_DATA}::text[])[1 + n % ${AWKWARD_DATA.length}::int]::jsonb
    from generate_series(0, ${count}::int - 1) as n`;
}

/** A new organization with so many entries. */
async function newLog(count: number): Promise<Organization> {
  const organization = await newOrganization(admin);
  await fill(organization.id, count);
  return organization;
}

/** What an export has to hold: each entry as JSON, as Postgres writes it. */
async function log({ id }: Organization, { start, end } = RANGE): Promise<string[]> {
  const rows = await sql`
    select jsonb_build_object(
      'id', id, 'action', action, 'user_email', user_email, 'agent_name', agent_name, 'data', data,
      'created_at', to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
    )::text as entry
    from public.audit_entries e
    where organization_id = ${id} and (created_at at time zone 'UTC')::date between ${start} and ${end}
    order by e.created_at, e.id`;
  return rows.map(({ entry }) => entry);
}

/** What a file holds: each entry as JSON, as Postgres writes it. */
async function content(file: string): Promise<string[]> {
  const text = await Deno.readTextFile(file);
  const entries = file.endsWith(".csv") ? csvEntries(text) : text.split("\n").slice(0, -1);
  const rows = await sql`
    select entry::jsonb::text as entry
    from unnest(${entries}::text[]) with ordinality as e (entry, n) order by n`;
  return rows.map(({ entry }) => entry);
}

function csvEntries(text: string): string[] {
  // Every line break that is not quoted ends a record, as it does to most readers.
  const record_delimiter = ["\r\n", "\n", "\r"];
  const [header, ...records] = parseCsv(text, { record_delimiter }) as string[][];
  assertEquals(header, ["id", "created_at", "action", "user_email", "agent_name", "data"]);
  return records.map(([id, created_at, action, user_email, agent_name, data]) =>
    JSON.stringify({ id, created_at, action, user_email, agent_name }).replace(
      /}$/,
      `,"data":${data}}`,
    )
  );
}

/** How a test runs the command; everything else is as in its usage text. */
interface Run {
  url?: string;
  key?: string | null;
  args?: string[];
  /** Of Deno itself. */
  flags?: string[];
  /** Of a terminal to run it on; what it shows is then its output. */
  columns?: number;
  /** Where a file can grow no more: the write that tries ends the process in its middle. */
  longestFile?: number;
}

/** A folder to export to, and the command. */
class Folder {
  readonly path = Deno.makeTempDirSync();

  file(name: string): string {
    return `${this.path}/${name}`;
  }

  /** Starts an export of ten days of March 2026 to a file. */
  start(
    name: string,
    { url = AUDIT_LOG_URL, key = null, args = [], flags = [], columns, longestFile }: Run,
  ): Running {
    const command = [
      Deno.execPath(),
      "run",
      ...flags,
      `--allow-net=${new URL(url).host}`,
      "--allow-env=AUDIT_LOG_API_KEY",
      `--allow-read=${this.path}`,
      `--allow-write=${this.path}`,
      EXPORT,
      `--url=${url}`,
      `--start=${RANGE.start}`,
      `--end=${RANGE.end}`,
      `--out=${this.file(name)}`,
      ...args,
    ];
    if (columns) {
      const quoted = command.map((part) => `'${part}'`).join(" ");
      command.splice(0, Infinity, "script", "-qec", `stty cols ${columns}; ${quoted}`, "/dev/null");
    }
    if (longestFile) {
      command.unshift("sh", "-c", `ulimit -f ${Math.floor(longestFile / 512)}; exec "$@"`, "sh");
    }
    const [program = "", ...rest] = command;
    const process = new Deno.Command(program, {
      args: rest,
      env: { AUDIT_LOG_API_KEY: key ?? "" },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    // Or else a run that hangs hangs the tests; so it ends with code 143, which none expects.
    const hangs = setTimeout(() => process.kill("SIGTERM"), LONGEST_RUN_MS);
    const output = process.output().then(({ code, stdout, stderr }) => {
      clearTimeout(hangs);
      const decoder = new TextDecoder();
      return { code, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
    });
    return { process, output };
  }

  async run(name: string, run: Run): Promise<Output> {
    return await this.start(name, run).output;
  }

  /** Runs an export that must succeed. */
  async export(name: string, run: Run): Promise<Output> {
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

interface Running {
  process: Deno.ChildProcess;
  output: Promise<Output>;
}

interface Output {
  code: number;
  stdout: string;
  stderr: string;
}

/** Kills a process that may have ended by then. */
function killSoon(running: Running | undefined, milliseconds: number): void {
  setTimeout(() => {
    try {
      running?.process.kill("SIGKILL");
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
    }
  }, milliseconds);
}

/** An answer as it goes over the wire; `length` is what it claims, `null` instead of one hangs up. */
type Answer = { status?: number; headers?: Record<string, string>; body: string; length?: number };

/** What a proxy does with a request: `forward()` is the API's own answer. */
type Behaviour = (
  request: { number: number; query: URLSearchParams },
  forward: () => Promise<Required<Answer>>,
) => Promise<Answer | null>;

/** Between the command and the API; keeps the real limit away. */
class Proxy {
  readonly requests: { offset: number; limit: number; at: number }[] = [];
  readonly url: string;
  #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  #organization: Organization;
  #behaviour: Behaviour;
  #connections = new Set<Promise<void>>();

  constructor(organization: Organization, behaviour: Behaviour) {
    this.#organization = organization;
    this.#behaviour = behaviour;
    this.url = `http://127.0.0.1:${this.#listener.addr.port}/functions/v1/public-audit-log`;
    this.#listen();
  }

  async #listen(): Promise<void> {
    for await (const connection of this.#listener) {
      const served = this.#serve(connection).catch(ignoreHangUp).finally(() => connection.close());
      this.#connections.add(served);
    }
  }

  async #serve(connection: Deno.Conn): Promise<void> {
    const head = await readHead(connection);
    if (!head) return;
    const query = new URL(head.split(" ")[1] ?? "", this.url).searchParams;
    const number = this.requests.push({
      offset: Number(query.get("offset")),
      limit: Number(query.get("limit")),
      at: performance.now(),
    });
    const answer = await this.#behaviour({ number, query }, () => this.#forward(head, query));
    if (!answer) return;
    const { status = 200, headers = {}, body } = answer;
    const bytes = new TextEncoder().encode(body);
    const lines = Object.entries({
      ...headers,
      connection: "close",
      "content-length": String(answer.length ?? bytes.length),
    }).map(([name, value]) => `${name}: ${value}\r\n`);
    await writeAll(
      connection,
      new TextEncoder().encode(`HTTP/1.1 ${status} Status\r\n${lines.join("")}\r\n`),
    );
    await writeAll(connection, bytes);
  }

  async #forward(head: string, query: URLSearchParams): Promise<Required<Answer>> {
    await age(sql, this.#organization.apiKeyId, "1 minute");
    const authorization = head.match(/^authorization: (.*)$/im)?.[1] ?? "";
    const response = await fetch(`${AUDIT_LOG_URL}?${query}`, {
      headers: { authorization },
    });
    const body = await response.text();
    return {
      status: response.status,
      headers: { "x-request-id": response.headers.get("x-request-id") ?? "" },
      body,
      length: new TextEncoder().encode(body).length,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    await Promise.all(this.#connections);
  }
}

/** The command may be killed at any time. */
function ignoreHangUp(error: unknown): void {
  const isHangUp = error instanceof Deno.errors.BrokenPipe ||
    error instanceof Deno.errors.ConnectionReset;
  if (!isHangUp) throw error;
}

async function readHead(connection: Deno.Conn): Promise<string | null> {
  const buffer = new Uint8Array(4096);
  let head = "";
  while (!head.endsWith("\r\n\r\n")) {
    const read = await connection.read(buffer);
    if (read === null) return null;
    head += new TextDecoder().decode(buffer.subarray(0, read));
  }
  return head;
}

async function writeAll(connection: Deno.Conn, bytes: Uint8Array): Promise<void> {
  for (let n = 0; n < bytes.length;) n += await connection.write(bytes.subarray(n));
}

/** Ways in which a page goes wrong on its way; `at` is where it is cut. */
function brokenAnswers(answer: Answer, at: number): (Answer | null)[] {
  const { body, headers = {} } = answer;
  const length = new TextEncoder().encode(body).length;
  const page: Page = JSON.parse(body);
  return [
    null,
    { headers, body: body.slice(0, at), length },
    { headers, body: body.slice(0, at) },
    { headers, body: "" },
    { headers, body: "<html>Please sign in</html>" },
    { headers, body: "null" },
    { headers, body: '{"organization_id":"x","total":0,"limit":1000,"offset":0}' },
    { headers, body: body.replace(/,"items":.*/s, ',"items":[]}') },
    { headers, body: body.replaceAll('"created_at"', '"at"') },
    { headers, body: JSON.stringify({ ...page, start: "2026-02-28" }) },
    { headers, body: JSON.stringify({ ...page, end: "2026-03-11" }) },
    {
      headers,
      body: JSON.stringify({ ...page, offset: page.offset + 7, items: page.items.slice(7) }),
    },
    { status: 500, body: "" },
    { status: 503, body: "<html>Busy</html>" },
    { status: 429, body: "" },
  ];
}

/** Deletes so many entries from a time on, as retention does. */
async function deleteEntries(organizationId: string, from: string, count: number): Promise<void> {
  await sql`
    delete from public.audit_entries where organization_id = ${organizationId} and id in (
      select id from public.audit_entries
      where organization_id = ${organizationId} and created_at >= ${from}
      order by created_at, id limit ${count}
    )`;
}

/** As a date that `Retry-After` may hold: whole seconds, so it is one second at the least. */
function inTwoSeconds(): string {
  return new Date(Date.now() + 2_000).toUTCString();
}

/** Changes the log before pages are read, by their number; what the bisection asks for is no page. */
function changeBefore(changes: Record<number, () => Promise<void>>): Behaviour {
  let pages = 0;
  return async ({ query }, forward) => {
    if (query.get("limit") === "1000") await changes[++pages]?.();
    return await forward();
  };
}

const forwardOnly: Behaviour = (_request, forward) => forward();

describe("export.ts", () => {
  for (const format of ["ndjson", "csv"]) {
    it(`writes every entry once, every value exact, as ${format}`, async () => {
      const organization = await newLog(2_345);
      using folder = new Folder();
      const file = `log.${format}`;
      const { stdout } = await folder.export(file, { key: organization.token });
      assertEquals(await content(folder.file(file)), await log(organization));
      assertEquals(stdout, `Exported 2,345 entries to ${folder.file(file)}, the API's total.\n`);
      assertEquals(folder.files(), [file]);
    });

    it(`writes an empty log as ${format}`, async () => {
      const { token } = await newOrganization(admin);
      using folder = new Folder();
      const { stdout } = await folder.export("log", { key: token, args: [`--format=${format}`] });
      const header = "id,created_at,action,user_email,agent_name,data\r\n";
      assertEquals(Deno.readTextFileSync(folder.file("log")), format === "csv" ? header : "");
      assertMatch(stdout, /^Exported 0 entries /);
    });

    it(`equals the log after kills, broken answers, late entries and deletions, as ${format}`, async () => {
      console.log(`EXPORT_SEED=${SEED}`);
      const random = randomFrom(SEED);
      const organization = await newLog(4_000);
      using folder = new Folder();
      const file = `log.${format}`;
      // Those that come are fewer in all than go at once: nothing cancels out.
      const changes = [
        ...Array.from({ length: 6 }, () => () => fill(organization.id, 20, 1 + random(10), 1)),
        () => deleteEntries(organization.id, "2026-03-02T00:00:00Z", 300),
        () => deleteEntries(organization.id, "2026-03-05T12:00:00Z", 300),
      ];
      let running: Running | undefined;
      await using proxy = new Proxy(organization, async ({ number }, forward) => {
        assert(!folder.files().includes(file));
        if (random(2) === 0) await changes.splice(random(changes.length), 1)[0]?.();
        const answer = await forward();
        if (number > 30) return answer;
        if (random(6) === 0) killSoon(running, random(40));
        if (random(3) > 0) return answer;
        return pick(random, brokenAnswers(answer, random(answer.body.length)));
      });
      let output: Output;
      do {
        running = folder.start(file, { url: proxy.url, key: organization.token });
        output = await running.output;
        assert(output.code === 0 || output.code === 137, `${output.code}: ${output.stderr}`);
      } while (output.code === 137);
      assertEquals(await content(folder.file(file)), await log(organization));
    });
  }

  it("resumes at the exact entry after being killed", async () => {
    console.log(`EXPORT_SEED=${SEED}`);
    const random = randomFrom(SEED);
    const organization = await newLog(6_000);
    using folder = new Folder();
    let running: Running | undefined;
    let kills = 0;
    await using proxy = new Proxy(organization, async ({ number }, forward) => {
      const answer = await forward();
      if (number % 2 === 0 && number < 40) killSoon(running, random(40));
      return answer;
    });
    const run = { url: proxy.url, key: organization.token };
    while (true) {
      running = folder.start("log.csv", run);
      const { code, stderr } = await running.output;
      if (code === 0) break;
      assertEquals(code, 137, stderr);
      kills++;
      // As if it had been in the middle of writing a page.
      Deno.writeTextFileSync(folder.file("log.csv.part"), "half an entry", { append: true });
    }
    assert(kills > 0);
    assertEquals(await content(folder.file("log.csv")), await log(organization));
    const offsets = proxy.requests.map(({ offset }) => offset);
    assertEquals(offsets, offsets.toSorted((a, b) => a - b), "never goes back");
    assert(offsets.length <= 7 + kills, "asks for a page again only after a kill");
  });

  it("resumes after a page was written in part", async () => {
    const organization = await newLog(2_500);
    using folder = new Folder();
    const run = { key: organization.token };
    await folder.export("whole.csv", run);
    const { size } = Deno.statSync(folder.file("whole.csv"));
    for (const share of [0.2, 0.5, 0.7, 0.95]) {
      const file = `${share}.csv`;
      const { code } = await folder.run(file, { ...run, longestFile: size * share });
      assert(code !== 0 && folder.files().includes(`${file}.part`), `${code}: ${share}`);
      await folder.export(file, run);
      assertEquals(await content(folder.file(file)), await log(organization));
    }
  });

  it("says why a connection fails", async () => {
    using folder = new Folder();
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    listener.close();
    const url = `http://127.0.0.1:${listener.addr.port}/`;
    const { code, stderr } = await folder.run("log.csv", {
      url,
      key: UNKNOWN_TOKEN,
      args: ["--tries=1"],
    });
    assertEquals(code, 1);
    assertMatch(stderr, /No whole answer \(.*Connection refused/);
  });

  it("takes no broken answer for a page", async () => {
    const organization = await newLog(30);
    using folder = new Folder();
    const broken = brokenAnswers({ body: '{"items":[]}' }, 0).length;
    await using proxy = new Proxy(organization, async ({ number }, forward) => {
      const answer = await forward();
      return number <= broken ? brokenAnswers(answer, 2_000)[number - 1] ?? null : answer;
    });
    const run = { url: proxy.url, key: organization.token, args: ["--tries=1"] };
    for (let i = 0; i < broken; i++) {
      const { code, stderr } = await folder.run("log.csv", run);
      assertEquals([code, folder.files()], [1, []], stderr);
      assertMatch(stderr, /^Gave up \(--tries=1\)\. /m);
    }
    await folder.export("log.csv", run);
    assertEquals(await content(folder.file("log.csv")), await log(organization));
  });

  it("goes back to the last day that is unchanged, not to the beginning", async () => {
    const organization = await newLog(4_000);
    using folder = new Folder();
    const behaviour = changeBefore({
      4: () => fill(organization.id, 1, 7, 1),
      6: () => fill(organization.id, 1, 5, 1),
    });
    await using proxy = new Proxy(organization, behaviour);
    const { stderr } = await folder.export("log.csv", { url: proxy.url, key: organization.token });
    assertEquals(await content(folder.file("log.csv")), await log(organization));
    assertStringIncludes(stderr, "The log has changed behind us: back to entry 2,400.\n");
    const offsets = proxy.requests.filter(({ limit }) => limit > 1).map(({ offset }) => offset);
    assertEquals(offsets, [0, 999, 1_998, 2_997, 2_399, 3_398, 1_599, 2_598, 3_597]);
  });

  it("sees by the entries what the totals hide", async () => {
    const organization = await newLog(2_000);
    using folder = new Folder();
    await using proxy = new Proxy(organization, async ({ number }, forward) => {
      if (number === 2) {
        await fill(organization.id, 1, 1, 1);
        await deleteEntries(organization.id, "2026-03-02T23:50:00Z", 1);
        await fill(organization.id, 1, 3, 1);
        await deleteEntries(organization.id, "2026-03-08T00:00:00Z", 1);
      }
      return await forward();
    });
    const { stderr } = await folder.export("log.csv", { url: proxy.url, key: organization.token });
    assertEquals(await content(folder.file("log.csv")), await log(organization));
    assertEquals(stderr.match(/back to entry \d+/g), ["back to entry 0"]);
  });

  it("sees that the log is shorter than what it has already", async () => {
    const organization = await newLog(2_000);
    using folder = new Folder();
    await using proxy = new Proxy(organization, async ({ number }, forward) => {
      if (number === 2) await deleteEntries(organization.id, "2026-03-01T12:00:00Z", 2_000);
      return await forward();
    });
    await folder.export("log.csv", { url: proxy.url, key: organization.token });
    assertEquals(await content(folder.file("log.csv")), await log(organization));
  });

  it("sees that a late entry goes again", async () => {
    const organization = await newLog(4_000);
    using folder = new Folder();
    const behaviour = changeBefore({
      4: () => fill(organization.id, 1, 1, 1),
      6: () => deleteEntries(organization.id, "2026-03-01T00:00:00Z", 1),
    });
    await using proxy = new Proxy(organization, behaviour);
    await folder.export("log.csv", { url: proxy.url, key: organization.token });
    assertEquals(await content(folder.file("log.csv")), await log(organization));
  });

  it("gives up when the log keeps changing behind it", async () => {
    const organization = await newLog(1_500);
    using folder = new Folder();
    await using proxy = new Proxy(organization, async ({ query }, forward) => {
      if (query.get("offset") !== "0") await fill(organization.id, 1, 1, 1);
      return await forward();
    });
    const { code, stderr } = await folder.run("log.csv", {
      url: proxy.url,
      key: organization.token,
    });
    assertEquals(code, 1);
    assertMatch(stderr, /Gave up: the log keeps changing behind us\. Run the same/);
  });

  it("goes on as long as it gets further, however often the log changes behind it", async () => {
    const organization = await newLog(12_500);
    using folder = new Folder();
    const changedAt = [0];
    let firstItem: Page["items"][number] | undefined;
    await using proxy = new Proxy(organization, async ({ query }, forward) => {
      const offset = Number(query.get("offset"));
      if (firstItem && offset > (changedAt.at(-1) ?? 0)) {
        changedAt.push(offset);
        await sql`
          insert into public.audit_entries
            (organization_id, created_at, action, user_email, agent_name)
          values (${organization.id}, ${firstItem.created_at}::timestamptz - interval '1 ms',
            'feedback_given', 'late@example.com', 'Late')`;
      }
      const answer = await forward();
      [firstItem] = (JSON.parse(answer.body) as Page).items;
      return answer;
    });
    await folder.export("log.csv", { url: proxy.url, key: organization.token });
    assert(changedAt.length > 11);
    assertEquals(await content(folder.file("log.csv")), await log(organization));
  });

  it("says how to go on when it is interrupted, and leaves nothing when it has nothing", async () => {
    const organization = await newLog(1_500);
    using folder = new Folder();
    let running: Running;
    await using proxy = new Proxy(organization, async ({ number }, forward) => {
      if (number === 1 || number === 3) running.process.kill("SIGINT");
      return await forward();
    });
    const run = { url: proxy.url, key: organization.token };
    for (const left of [[], ["log.csv.part", "log.csv.progress"]]) {
      running = folder.start("log.csv", run);
      const { code, stderr } = await running.output;
      assertEquals([code, folder.files()], [130, left]);
      assertMatch(stderr, /\nInterrupted\. Nothing is lost: run the same command again/);
    }
    await folder.export("log.csv", run);
    assertEquals(proxy.requests.map(({ offset }) => offset), [0, 0, 999, 999]);
    assertEquals(await content(folder.file("log.csv")), await log(organization));
  });

  for (const columns of [30, 80]) {
    it(`shows a bar on a terminal of ${columns} columns, and never wraps`, async () => {
      const organization = await newLog(3_500);
      using folder = new Folder();
      await using proxy = new Proxy(organization, forwardOnly);
      const { code, stdout } = await folder.run("log.csv", {
        url: proxy.url,
        key: organization.token,
        columns,
      });
      assertEquals(code, 0, stdout);
      const shown = stdout.split("\r").filter((text) => text.includes(" of 3,500 entries"));
      assertEquals(shown.length, 4);
      assert(shown.every((text) => text.replace("\x1b[K", "").trim().length < columns), stdout);
      assertEquals(shown.some((text) => /, [\d,]+\/s, \d+ s left █+░*/.test(text)), columns === 80);
    });
  }

  it("waits as long as RateLimit and Retry-After say, and 429 is no failure", async () => {
    const organization = await newLog(1_500);
    using folder = new Folder();
    await using proxy = new Proxy(organization, async ({ number }, forward) => {
      const answer = await forward();
      if (number === 1) return { status: 429, headers: { "retry-after": "1" }, body: "{}" };
      if (number === 2) {
        return { status: 503, headers: { "retry-after": inTwoSeconds() }, body: "" };
      }
      if (number === 3) return { ...answer, headers: { ratelimit: '"default";r=0;t=1' } };
      return { ...answer, headers: { ratelimit: '"default";r=1;t=60' } };
    });
    const args = ["--tries=2"];
    await folder.export("log.csv", { url: proxy.url, key: organization.token, args });
    const waits = proxy.requests.slice(1).map(({ at }, i) => at - (proxy.requests[i]?.at ?? 0));
    assertEquals(waits.map((wait) => wait >= 990), [true, true, true]);
    assertEquals(await content(folder.file("log.csv")), await log(organization));
  });

  it("gives up after so many failures in a row, and the same command goes on", async () => {
    const organization = await newLog(2_500);
    using folder = new Folder();
    let isDown = true;
    await using proxy = new Proxy(organization, async ({ number }, forward) => {
      if (number > 2 && isDown) {
        return { status: 503, headers: { "x-request-id": "r-1" }, body: "" };
      }
      return await forward();
    });
    const run = { url: proxy.url, key: organization.token, args: ["--tries=5"] };
    const { code, stderr } = await folder.run("log.csv", run);
    assertEquals(code, 1);
    assertEquals(proxy.requests.length, 7);
    const [first = 0, last = 0] = [2, -1].map((n) => proxy.requests.at(n)?.at);
    assert(last - first > 100, "waits between them, 1.5 s on average");
    assertStringIncludes(
      stderr,
      "Gave up (--tries=5). The last: Status 503, request id r-1.\n" +
        "Nothing is lost: run the same command again",
    );
    assertEquals(folder.files(), ["log.csv.part", "log.csv.progress"]);
    isDown = false;
    await folder.export("log.csv", run);
    assertEquals(proxy.requests.at(7)?.offset, 1_998);
    assertEquals(await content(folder.file("log.csv")), await log(organization));
  });

  describe("stops at once", () => {
    async function stops(run: Run & { token?: string }): Promise<Output & { requests: number }> {
      const organization = await newOrganization(admin);
      using folder = new Folder();
      await using proxy = new Proxy(organization, forwardOnly);
      const url = run.url ? new URL(run.url, proxy.url).href : proxy.url;
      const output = await folder.run("log.csv", { key: organization.token, ...run, url });
      assertEquals(folder.files(), [], "leaves nothing");
      return { ...output, requests: proxy.requests.length };
    }

    it("with code 3 when the key is refused", async () => {
      const { code, stderr, requests } = await stops({ key: UNKNOWN_TOKEN });
      assertEquals([code, requests], [3, 1]);
      assertMatch(
        stderr,
        /^The API refuses the key \(401, request id [-0-9a-f]{36}\)\. Run the same/,
      );
    });

    it("with code 2 and the API's errors when the query is invalid", async () => {
      const { code, stderr, requests } = await stops({
        args: ["--action=x", "--start=2026-02-30"],
      });
      assertEquals([code, requests], [2, 1]);
      assertMatch(stderr, /^The API refuses the request \(400, .*Correct the options/);
      assertStringIncludes(stderr, '\n  start: "2026-02-30": must be a real day');
      assertStringIncludes(stderr, '\n  action: "x": must be one of: agent_added');
    });

    it("with code 2 when the action is empty, as a variable may be", async () => {
      const { code, stderr } = await stops({ args: ["--action="] });
      assertEquals(code, 2);
      assertStringIncludes(stderr, '\n  action: "": must be one of: ');
    });

    it("with code 2 when the address is wrong", async () => {
      const { code, stderr } = await stops({ url: `${AUDIT_LOG_URL}/x` });
      assertEquals(code, 2);
      assertMatch(stderr, /\(404, .*Is --url right\? There is nothing here/);
    });

    it("with code 2 when something before the API refuses", async () => {
      const bodies = [
        "<html>No</html>",
        "null",
        '{"code": 1}',
        '{"detail": "x", "errors": [null]}',
      ];
      for (const body of bodies) {
        const organization = await newOrganization(admin);
        using folder = new Folder();
        await using proxy = new Proxy(organization, () => Promise.resolve({ status: 400, body }));
        const { token: key } = organization;
        const { code, stderr } = await folder.run("log.csv", { url: proxy.url, key });
        assertEquals([code, folder.files()], [2, []], stderr);
        assertMatch(stderr, /^The API refuses the request \(400\)\. Correct the options\.\n$/);
      }
    });

    it("with code 2 at a redirect: the key goes nowhere else", async () => {
      const organization = await newOrganization(admin);
      using folder = new Folder();
      const answer = { status: 302, headers: { location: "/elsewhere" }, body: "" };
      await using proxy = new Proxy(organization, () => Promise.resolve(answer));
      const { code } = await folder.run("log.csv", { url: proxy.url, key: organization.token });
      assertEquals([code, proxy.requests.length], [2, 1]);
    });

    it("with code 2 when a file cannot be opened", async () => {
      using folder = new Folder();
      const keyFile = `--key-file=${folder.file("no")}`;
      for (const [file, args] of [["no/log.csv", []], ["log.csv", [keyFile]]] as const) {
        const { code, stderr } = await folder.run(file, { key: UNKNOWN_TOKEN, args: [...args] });
        assertEquals([code, folder.files()], [2, []], stderr);
        assertMatch(stderr, /^No such file or directory .*: \w+ '.*no/);
      }
    });

    for (
      const [name, args, message] of [
        ["an unknown option", ["--acton=x"], /Unknown option '--acton'.*\nTry --help\.\n$/],
        ["a word too much", ["x"], /Unexpected argument 'x'/],
        ["no days", ["--start=", "--end="], /^Missing: --start, --end\.\n/],
        ["a format that is none", ["--format=xml"], /^--format: ndjson or csv/],
        ["no tries", ["--tries=0"], /^--tries: /],
        [
          "an address that is not secret",
          ["--url=http://example.com/"],
          /^--url: an https address/,
        ],
        ["an address that is none", ["--url=example.com"], /^--url: /],
        ["an address with a query", ["--url=https://example.com/?action=x"], /^--url: /],
        ["an address with a password", ["--url=https://a:b@example.com/"], /^--url: /],
      ] as const
    ) {
      it(`with code 2 and a hint: ${name}`, async () => {
        const { code, stderr, requests } = await stops({ args: [...args] });
        assertEquals([code, requests], [2, 0]);
        assertMatch(stderr, message);
      });
    }

    it("with code 2 and a hint: no key, or something else instead", async () => {
      for (
        const [key, message] of [
          [null, /^No API key: put it into AUDIT_LOG_API_KEY/],
          ["secret word", /^What AUDIT_LOG_API_KEY holds is no API key: one begins with pck_\.\n/],
        ] as const
      ) {
        const { code, stderr, requests } = await stops({ key });
        assertEquals([code, requests], [2, 0]);
        assertMatch(stderr, message);
      }
    });

    it("with code 2 and a hint: a key as an argument", async () => {
      for (const arg of [`--key=${UNKNOWN_TOKEN}`, UNKNOWN_TOKEN]) {
        const { code, stderr, requests } = await stops({ args: [arg] });
        assertEquals([code, requests], [2, 0]);
        assertMatch(stderr, /^An API key does not belong on the command line/);
        assert(!stderr.includes(UNKNOWN_TOKEN));
      }
    });
  });

  it("shows the key nowhere, and takes it from a file", async () => {
    const organization = await newLog(10);
    using folder = new Folder();
    Deno.writeTextFileSync(folder.file("key"), `${organization.token}\n`);
    const seen: string[] = [];
    await using proxy = new Proxy(organization, ({ number }, forward) => {
      for (const file of folder.files()) {
        if (file !== "key") seen.push(Deno.readTextFileSync(folder.file(file)));
      }
      const body = `Bearer ${organization.token}`;
      return number < 3 ? Promise.resolve({ status: 500, body }) : forward();
    });
    const args = [`--key-file=${folder.file("key")}`];
    const { stdout, stderr } = await folder.export("log.csv", { url: proxy.url, args });
    seen.push(stdout, stderr, Deno.readTextFileSync(folder.file("log.csv")));
    assert(seen.length > 4);
    assert(!seen.some((text) => text.includes(organization.token)));
    assertEquals(await content(folder.file("log.csv")), await log(organization));
  });

  describe("refuses", () => {
    it("a leftover of another command or organization, and lets it be finished", async () => {
      const organization = await newLog(1_500);
      const another = await newOrganization(admin);
      using folder = new Folder();
      let isDown = true;
      await using proxy = new Proxy(organization, async ({ query }, forward) => {
        return isDown && query.get("offset") === "999" ? null : await forward();
      });
      const run = { url: proxy.url, key: organization.token, args: ["--tries=1"] };
      assertEquals((await folder.run("log.csv", run)).code, 1);
      isDown = false;
      const others: Run[] = [
        { ...run, url: `${proxy.url}?` },
        { ...run, args: ["--start=2026-03-02"] },
        { ...run, args: ["--end=2026-03-09"] },
        { ...run, args: ["--action=agent_added"] },
        { ...run, args: ["--format=ndjson"] },
        { ...run, key: another.token },
      ];
      for (const other of others) {
        const { code, stderr } = await folder.run("log.csv", other);
        assertEquals(code, 2, stderr);
        assertMatch(
          stderr,
          /log\.csv\.part is .*: finish that export first, choose another --out, or/,
        );
      }
      const part = Deno.readFileSync(folder.file("log.csv.part"));
      Deno.truncateSync(folder.file("log.csv.part"), part.length - 1);
      assertEquals((await folder.run("log.csv", run)).code, 2, "a part that has become shorter");
      Deno.writeFileSync(folder.file("log.csv.part"), part);
      await folder.export("log.csv", run);
      assertEquals(await content(folder.file("log.csv")), await log(organization));
    });

    it("to write through a link to another file", async () => {
      const organization = await newLog(10);
      using folder = new Folder();
      Deno.writeTextFileSync(folder.file("another"), "");
      Deno.symlinkSync(folder.file("another"), folder.file("log.csv.part"));
      assertEquals((await folder.run("log.csv", { key: organization.token })).code, 2);
      assertEquals(Deno.readTextFileSync(folder.file("another")), "");
    });

    it("to touch what it has not written", async () => {
      const organization = await newLog(10);
      using folder = new Folder();
      for (const name of ["log.csv", "log.csv.part"]) {
        Deno.writeTextFileSync(folder.file(name), "mine");
        const { code, stderr } = await folder.run("log.csv", { key: organization.token });
        assertEquals(code, 2);
        assertMatch(stderr, /: remove it, or choose another --out\.\n$|is not of this command: /);
        assertEquals(folder.files(), [name]);
        assertEquals(Deno.readTextFileSync(folder.file(name)), "mine");
        Deno.removeSync(folder.file(name));
      }
    });

    it("to overwrite a file that appears while it runs, and goes on when it is gone", async () => {
      const organization = await newLog(10);
      using folder = new Folder();
      await using proxy = new Proxy(organization, async ({ number }, forward) => {
        if (number === 1) Deno.writeTextFileSync(folder.file("log.csv"), "mine");
        return await forward();
      });
      const run = { url: proxy.url, key: organization.token };
      const { code, stderr } = await folder.run("log.csv", run);
      assertEquals([code, Deno.readTextFileSync(folder.file("log.csv"))], [2, "mine"], stderr);
      Deno.removeSync(folder.file("log.csv"));
      await folder.export("log.csv", run);
      assertEquals(await content(folder.file("log.csv")), await log(organization));
    });

    it("to run twice at once on one file", async () => {
      const organization = await newLog(10);
      using folder = new Folder();
      const refused = Promise.withResolvers<Output>();
      await using proxy = new Proxy(organization, async (_request, forward) => {
        refused.resolve(folder.run("log.csv", { key: organization.token }));
        await refused.promise;
        return await forward();
      });
      await folder.export("log.csv", { url: proxy.url, key: organization.token });
      const { code, stderr } = await refused.promise;
      assertEquals(code, 2);
      assertMatch(stderr, /log\.csv\.part is in use: another export is at it\.\n$/);
      assertEquals(await content(folder.file("log.csv")), await log(organization));
    });
  });

  it("exports one action, and says of days that are not over that the log grows", async () => {
    const organization = await newLog(30);
    using folder = new Folder();
    const args = ["--end=9999-12-31", "--action=agent_added"];
    const { stdout } = await folder.export("log.csv", { key: organization.token, args });
    assertMatch(
      stdout,
      /^Exported 10 entries .* These days are not over: this is the log as of 20/,
    );
    const entries = await log(organization);
    assertEquals(
      await content(folder.file("log.csv")),
      entries.filter((entry) => entry.includes('"action": "agent_added"')),
    );
  });

  it("says what to do about data that is nested too deep", async () => {
    const organization = await newOrganization(admin);
    const data = `{"a": ${"[".repeat(8_000)}${"]".repeat(8_000)}}`;
    await sql`
      insert into public.audit_entries
        (organization_id, created_at, action, user_email, agent_name, data)
      values (${organization.id}, '2026-03-01', 'agent_added', 'a@example.com', 'A', ${data}::text::jsonb)`;
    using folder = new Folder();
    const { code, stderr } = await folder.run("log.ndjson", { key: organization.token });
    assertEquals(code, 1);
    const flags = [stderr.match(/deno run (--v8-flags\S+)/)?.[1] ?? ""];
    await folder.export("log.ndjson", { key: organization.token, flags });
    assertEquals(await content(folder.file("log.ndjson")), await log(organization));
  });

  it("explains itself", async () => {
    using folder = new Folder();
    const { code, stdout } = await folder.run("log.csv", { args: ["--help"] });
    assertEquals(code, 0);
    assertMatch(stdout, /--allow-net=HOST .*Exit codes: 0 done; 1 gave up/s);
  });
});
