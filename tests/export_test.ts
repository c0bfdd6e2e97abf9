import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { parse as parseCsv } from "csv-parse/sync";
import { fileURLToPath } from "node:url";
import {
  age,
  AUDIT_LOG_URL,
  connect,
  newOrganization,
  type Organization,
  pick,
  randomFrom,
  signUp,
  UNKNOWN_TOKEN,
} from "./helpers.ts";

const EXPORT = fileURLToPath(new URL("../examples/export.ts", import.meta.url));
const SEED = Number(Deno.env.get("EXPORT_SEED") ?? Math.floor(Math.random() * 1e9));
const RANGE = { start: "2026-03-01", end: "2026-03-10" };

const sql = connect();
const admin = await signUp();
afterAll(() => sql.end());

/** Values that a careless writer of JSON or CSV breaks. */
const AWKWARD = [
  'say "hi", twice',
  "two\r\nlines\nand\rmore",
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
  const [header, ...records] = parseCsv(text, { record_delimiter: "\r\n" }) as string[][];
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
}

/** A folder to export to, and the command. */
class Folder {
  readonly path = Deno.makeTempDirSync();

  file(name: string): string {
    return `${this.path}/${name}`;
  }

  /** Starts an export of ten days of March 2026 to a file. */
  start(name: string, { url = AUDIT_LOG_URL, key = null, args = [] }: Run): Running {
    const process = new Deno.Command(Deno.execPath(), {
      args: [
        "run",
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
      ],
      env: { AUDIT_LOG_API_KEY: key ?? "" },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    const output = process.output().then(({ code, stdout, stderr }) => {
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
      headers: { "content-type": response.headers.get("content-type") ?? "" },
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

    it(`resumes at the exact entry after being killed, as ${format}`, async () => {
      console.log(`EXPORT_SEED=${SEED}`);
      const random = randomFrom(SEED);
      const organization = await newLog(6_000);
      using folder = new Folder();
      const file = `log.${format}`;
      let running: Running | undefined;
      let killAt = 1 + random(3);
      await using proxy = new Proxy(organization, async ({ number }, forward) => {
        assert(!folder.files().includes(file));
        if (number !== killAt) return await forward();
        killAt = number + 1 + random(4);
        const answer = await forward();
        setTimeout(() => running?.process.kill("SIGKILL"), random(60));
        return answer;
      });
      let code = -1;
      for (let run = 0; run < 12 && code !== 0; run++) {
        running = folder.start(file, { url: proxy.url, key: organization.token });
        code = (await running.output).code;
        // As if it had been killed in the middle of the next page.
        if (code !== 0) {
          Deno.writeTextFileSync(folder.file(`${file}.part`), "half", { append: true });
        }
      }
      assertEquals(code, 0);
      assertEquals(await content(folder.file(file)), await log(organization));
      const offsets = proxy.requests.map(({ offset }) => offset);
      assertEquals(offsets, offsets.toSorted((a, b) => a - b), "never went back");
    });
  }
});
