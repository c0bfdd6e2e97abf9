import { assert, assertEquals, assertMatch } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { fileURLToPath } from "node:url";
import {
  AUDIT_LOG_URL,
  connect,
  type Entry,
  getPage,
  newOrganization,
  type Organization,
  signUp,
  writeEntries,
} from "../helpers.ts";
import { runRecipes, unpackRecipes } from "./recipes.ts";

const sql = connect();
const admin = await signUp();
const folder = await Deno.makeTempDir();
await unpackRecipes(folder);
afterAll(async () => {
  await sql.end();
  await Deno.remove(folder, { recursive: true });
});

/** Takes what the recipe for a SIEM sends, as Elasticsearch's `_bulk` does. */
function startSiem() {
  const names = new Set<string>();
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    async (request) => {
      for (const line of (await request.text()).trim().split("\n")) {
        const name = JSON.parse(line).create?._id;
        if (name) names.add(name);
      }
      return Response.json({ errors: false, documents: names.size });
    },
  );
  return { names, server };
}

/** Entries of the days that the page reads, and of today for the tail. */
function entries(): Entry[] {
  const now = Date.now();
  return [
    ...Array.from({ length: 30 }, (_, i) => ({
      created_at: `2026-11-${String(i % 20 + 1).padStart(2, "0")}T10:00:${i}Z`,
    })),
    { created_at: "2026-11-20T23:59:59.999Z", action: "feedback_given" as const, data: {} },
    { created_at: new Date(now - 20_000).toISOString() },
    { created_at: new Date(now - 19_999).toISOString() },
  ];
}

/** Writes so many entries, evenly over the 20th of November 2026; their names in the log's order. */
async function fill({ id }: Organization, count: number): Promise<string[]> {
  await sql`
    insert into public.audit_entries (organization_id, created_at, action, user_email, agent_name)
    select ${id}, '2026-11-20Z'::timestamptz + n * interval '1 day' / ${count}::int,
      'feedback_given', 'ada@example.com', 'Assistant'
    from generate_series(0, ${count}::int - 1) as n`;
  const rows = await sql`
    select id from public.audit_entries where organization_id = ${id} order by created_at, id`;
  return rows.map(({ id }) => id);
}

/** Between a recipe and the API; every request is refused in one way, then in the next, then answered. */
function startBadConnection(refusals: ((() => Response) | null)[]) {
  let requests = 0;
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    ({ url, headers }) => {
      const refusal = refusals[requests++ % (refusals.length + 1)];
      if (refusal) return refusal();
      const authorization = headers.get("Authorization") ?? "";
      return fetch(`${AUDIT_LOG_URL}${new URL(url).search}`, { headers: { authorization } });
    },
  );
  return {
    url: `http://127.0.0.1:${server.addr.port}/public-audit-log`,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

/** Runs a program of the page, which must end with a code; what it printed. */
async function run(
  command: string[],
  url: string,
  { token }: Organization,
  expected = 0,
): Promise<string> {
  const [program = "", ...args] = command;
  const { code, stdout, stderr } = await new Deno.Command(program, {
    args,
    cwd: folder,
    env: { AUDIT_LOG_URL: url, AUDIT_LOG_API_KEY: token, NO_COLOR: "1" },
    // One that hangs would hang the tests.
    signal: AbortSignal.timeout(30_000),
  }).output();
  assertEquals(code, expected, new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout);
}

function idsOf(lines: string): string[] {
  return lines.split("\n").slice(0, -1).map((line) => JSON.parse(line).id);
}

/** The tail of an organization, with a place of its own. */
function tailOf(organization: Organization) {
  const path = `${folder}/${organization.id}`;
  const command = `mkdir -p ${path} && cd ${path} && python3 ../tail.py 2> errors`;
  return {
    /** The ids of the entries that a run prints. */
    async tail(url = AUDIT_LOG_URL, code = 0): Promise<string[]> {
      return idsOf(await run(["sh", "-c", command], url, organization, code));
    },
    async writePlace({ created_at }: { created_at: string }, positions: unknown[]): Promise<void> {
      await Deno.mkdir(path, { recursive: true });
      const place = { start: created_at.slice(0, 10), positions };
      await Deno.writeTextFile(`${path}/tail.json`, JSON.stringify(place));
    },
    async positions(): Promise<[number, unknown][]> {
      return JSON.parse(await Deno.readTextFile(`${path}/tail.json`)).positions;
    },
    errors: () => Deno.readTextFile(`${path}/errors`),
  };
}

function daysAgo(days: number): { created_at: string } {
  return { created_at: new Date(Date.now() - days * 86_400_000).toISOString() };
}

/** What the recipes call the first entry of a log: its id and time. */
async function nameOfFirst({ token }: Organization): Promise<[string, string]> {
  const { items: [first] } = await getPage(token, "start=0001-01-01&end=9999-12-31&limit=1");
  return [first?.id ?? "", first?.created_at ?? ""];
}

function limitReached(): Response {
  return new Response(null, { status: 429, headers: { "Retry-After": "0" } });
}

describe("docs/integrating.md", () => {
  it("has commands that all run, on the log as it should be read", async () => {
    const organization = await newOrganization(admin);
    await writeEntries(organization.id, entries());
    const siem = startSiem();
    const ran = await runRecipes({
      AUDIT_LOG_URL,
      AUDIT_LOG_API_KEY: organization.token,
      API_URL: new URL(AUDIT_LOG_URL).origin,
      PUBLISHABLE_KEY: Deno.env.get("SUPABASE_PUBLISHABLE_KEY") ?? "",
      EMAIL: admin.email,
      PASSWORD: admin.password,
      ORGANIZATION_ID: organization.id,
      OLD_API_KEY_ID: organization.apiKeyId,
      REPOSITORY: fileURLToPath(new URL("../..", import.meta.url)),
      SIEM_URL: `http://127.0.0.1:${siem.server.addr.port}`,
    });
    await siem.server.shutdown();

    const outputOf = (part: string) =>
      ran.find(({ command }) => command.includes(part))?.output ?? `no command has ${part}`;
    assertEquals(JSON.parse(outputOf("cat page.json")).total, 31);
    assertMatch(outputOf("read.ts"), /message_created: 30, feedback_given: 1/);
    assertEquals(JSON.parse(outputOf("audit_log.py")).created_at, "2026-11-20T23:59:59.999Z");
    assertMatch(outputOf("export.ts"), /\b1 entry[^]*\b2 entries/);
    assertEquals(outputOf("wc -l").split(/\s+/), ["2", "2"]);
    assertEquals(JSON.parse(outputOf("tail.py")).positions.at(-1)[0], 2);
    assertEquals(siem.names.size, 2);
    assertMatch(outputOf('end=2026-11-01"'), /"code":"invalid_parameters".*exit code 22/s);
    assertMatch(outputOf("pck_revoked"), /"code":"unauthorized".*exit code 22/s);
    assertMatch(outputOf("grep -i ratelimit"), /"default";r=\d+;t=\d+/);
    assertMatch(JSON.parse(outputOf("create_api_key")).token, /^pck_/);
    assertEquals(outputOf("%{http_code}"), "200");
    assertEquals(JSON.parse(outputOf("list_api_keys")).length, 1);
    assertMatch(outputOf("sys.argv[1]"), /^test 20\d\d-/);
    assert(JSON.parse(outputOf("revoke_api_key")).revoked_at);
    assert(ran.every(({ output }) => output !== ""));
  });

  it("reads every entry once, over many pages and a bad connection", async () => {
    const organization = await newOrganization(admin);
    const ids = await fill(organization, 2500);
    await using bad = startBadConnection([
      limitReached,
      () => new Response("busy", { status: 503 }),
      () => new Response("who are you?", { status: 403 }),
      () => new Response('{"total":2500,"items":['),
    ]);
    const python = ["python3", "audit_log.py", "2026-11-20", "2026-11-20"];
    assertEquals(idsOf(await run(python, bad.url, organization)), ids);

    await using limited = startBadConnection([limitReached]);
    const deno = [Deno.execPath(), "run", "--allow-env", "--allow-net", "read.ts"];
    assertEquals(await run(deno, limited.url, organization), "{ feedback_given: 2500 }\n");
  });

  it("tails every entry, also a late one and those of days without a run", async () => {
    const organization = await newOrganization(admin);
    const { tail, writePlace } = tailOf(organization);
    // As a run of five days ago would have left its place.
    await writeEntries(organization.id, [daysAgo(5)]);
    await writePlace(daysAgo(5), [[0, null], [1, await nameOfFirst(organization)]]);
    await writeEntries(organization.id, [daysAgo(4), daysAgo(3), daysAgo(1)]);
    assertEquals((await tail()).length, 3);
    assertEquals(await tail(), []);

    // Between two of those that it has: it prints what comes after the first.
    await writeEntries(organization.id, [daysAgo(3.5)]);
    assertEquals((await tail()).length, 3);
    assertEquals(await tail(), []);

    // One that is not due yet holds nothing up.
    await writeEntries(organization.id, [daysAgo(-30), daysAgo(0.001)]);
    assertEquals((await tail()).length, 1);

    // Of the last seconds: others may still come before it.
    await writeEntries(organization.id, [daysAgo(0)]);
    assertEquals(await tail(), []);
  });

  it("tails on from the day of its oldest position, and says so, when all have moved", async () => {
    const organization = await newOrganization(admin);
    const { tail, writePlace, errors } = tailOf(organization);
    await writeEntries(organization.id, [daysAgo(5)]);
    await writePlace(daysAgo(10), [[1, await nameOfFirst(organization)]]);
    await writeEntries(organization.id, [daysAgo(7), daysAgo(0.001)]);
    assertEquals((await tail()).length, 2);
    const day = daysAgo(5).created_at.slice(0, 10);
    assertEquals(await errors(), `The log has changed before ${day}: export those days again.\n`);
    assertEquals(await tail(), []);
  });

  it("tails on when more old entries were deleted than its place is from the end", async () => {
    const organization = await newOrganization(admin);
    const { tail, writePlace } = tailOf(organization);
    await writeEntries(organization.id, [daysAgo(3), daysAgo(2)]);
    await writePlace(daysAgo(5), [[0, null], [9, await nameOfFirst(organization)]]);
    assertEquals((await tail()).length, 2);
  });

  it("keeps one position an hour", async () => {
    const organization = await newOrganization(admin);
    const { tail, writePlace, positions } = tailOf(organization);
    await fill(organization, 96);
    await writePlace({ created_at: "2026-11-20" }, [[0, null]]);
    assertEquals((await tail()).length, 96);
    assertEquals(
      (await positions()).map(([count]) => count),
      Array.from({ length: 25 }, (_, hour) => hour * 4),
    );
  });

  it("shows the key to no other address, nor in a message", async () => {
    const organization = await newOrganization(admin);
    const shown: (string | null)[] = [];
    await using other = Deno.serve(
      { hostname: "127.0.0.1", port: 0, onListen: () => {} },
      ({ headers }) => {
        shown.push(headers.get("Authorization"));
        return new Response(null, { status: 401 });
      },
    );
    const { tail, errors } = tailOf(organization);
    await using moved = startBadConnection([
      () => Response.redirect(`http://127.0.0.1:${other.addr.port}/`),
    ]);
    await tail(moved.url, 2);
    assertEquals(shown, [null]);

    // As a file with Windows's ends of lines leaves it.
    const broken = { ...organization, token: `${organization.token}\r` };
    await tailOf(broken).tail(AUDIT_LOG_URL, 2);
    assertEquals(await errors(), "AUDIT_LOG_API_KEY holds no API key: one begins with pck_\n");
  });

  it("tails on from the entry at which the key was revoked", async () => {
    const organization = await newOrganization(admin);
    const ids = await fill(organization, 1500);
    const { tail, writePlace, errors } = tailOf(organization);
    await writePlace({ created_at: "2026-11-20" }, [[0, null]]);
    await using revoked = startBadConnection([
      null,
      () => new Response("revoked", { status: 401 }),
    ]);
    const before = await tail(revoked.url, 2);
    assertEquals(await errors(), "401: revoked\n");
    assertEquals([...before, ...await tail()], ids);
  });
});
