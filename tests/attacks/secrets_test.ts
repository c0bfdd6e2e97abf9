import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { createClient } from "@supabase/supabase-js";
import { Buffer } from "node:buffer";
import { join } from "node:path";
import postgres from "postgres";
import { freePort } from "../../local/free_port.ts";
import { startGateway } from "../../local/gateway.ts";
import { databaseUrl } from "../../local/postgres.ts";
import { type Stack, startStack } from "../../local/stack.ts";
import { tokenHash } from "../../supabase/functions/public-audit-log/token.ts";
import { insertEntries, TWO_DAYS } from "../helpers.ts";

// Keys are made, used rightly and used wrongly on a stack of this file's own; then everything that
// was written anywhere is searched for them.

/** All that was written, by where. */
interface Written {
  /** Every row of the database, and what it shows of running statements. */
  rows: string;
  /** What the function, the gateway and the Data API have printed. */
  output: string;
  /** Bodies and headers of the function's answers. */
  answers: string;
  /** Postgres's own log: as the platform has it, and with every statement in it. */
  serverLog: string;
  fullServerLog: string;
  /** What auto_explain tells of each statement within the making of a key, with its values. */
  plans: string[];
}

const tokens: string[] = [];
const written = await useKeys();

async function useKeys(): Promise<Written> {
  const dataDir = await Deno.makeTempDir();
  let output = "";
  const log = (text: string) => void (output += text);
  await using cleanUp = new AsyncDisposableStack();
  cleanUp.defer(() => Deno.remove(dataDir, { recursive: true }));
  const stack = cleanUp.use(
    await startStack({
      dataDir,
      apiPort: freePort(),
      databasePort: freePort(),
      seed: false,
      progress: () => {},
      log,
    }),
  );
  const { port, adminPassword } = stack.postgres;
  const adminUrl = databaseUrl(port, "supabase_admin", adminPassword);
  const sql = postgres(adminUrl, { onnotice: () => {} });
  cleanUp.defer(() => sql.end());

  let answers = await useKey(stack, sql, log);
  const serverLogPath = join(dataDir, "postgres", "server.log");
  const serverLog = await Deno.readTextFile(serverLogPath);
  await logEverything(sql);
  answers += await useKey(stack, sql, log);
  return {
    rows: await allRows(sql),
    output,
    answers,
    serverLog,
    fullServerLog: await Deno.readTextFile(serverLogPath),
    plans: await explainKey(adminUrl),
  };
}

/** Makes a key and uses it rightly, in every wrong way, and when the database fails; the answers. */
async function useKey(
  stack: Stack,
  sql: postgres.Sql,
  log: (text: string) => void,
): Promise<string> {
  const { id: keyId, organizationId, token, client } = await newKey(stack, sql);
  const typo = token.slice(0, 9) + (token[9] === "x" ? "y" : "x") + token.slice(10);
  tokens.push(typo);

  const url = `${stack.apiUrl}/functions/v1/public-audit-log?${TWO_DAYS}`;
  const bearer = { Authorization: `Bearer ${token}` };
  let answers = "";
  const send = async (status: number, address: string, init: RequestInit) => {
    const response = await fetch(address, init);
    answers += `${JSON.stringify([...response.headers])}\n${await response.text()}\n`;
    assertEquals(response.status, status);
  };

  await send(200, url, { headers: bearer });
  await send(400, `${url}&limit=x`, { headers: bearer });
  await send(400, `${url}&api_key=${token}&${token}=1`, { headers: bearer });
  await send(400, `${url}&action=${token}`, { headers: bearer });
  await send(405, url, { headers: bearer, method: "POST", body: token });
  await send(404, `${url.replace("?", `/${token}?`)}`, { headers: bearer });
  await send(401, `${url}&token=${token}`, {});
  await send(401, url, { headers: { Cookie: `token=${token}`, apikey: token } });
  const wrongs = [
    ...[typo, token.toLowerCase(), `${token} ${token}`].map((wrong) => `Bearer ${wrong}`),
    ...[`Basic ${btoa(token)}`, `Token ${token}`, token],
  ];
  for (const Authorization of wrongs) await send(401, url, { headers: { Authorization } });
  await sql.begin(async (transaction) => {
    await transaction`select from audit_log_private.rate_limits where api_key_id = ${keyId} for update`;
    await send(500, url, { headers: bearer });
  });
  await sql`alter table audit_log_private.api_key_hashes rename to gone`;
  await send(500, url, { headers: bearer });
  await sql`alter table audit_log_private.gone rename to api_key_hashes`;
  {
    // A gateway whose function is gone.
    const [port, functionPort] = [freePort(), freePort()];
    const nothing = () => new Response();
    const others = { dataApi: nothing, auth: nothing, serveConsole: () => null };
    await using _gateway = startGateway({ port, functionPort, ...others, log });
    await send(500, `http://127.0.0.1:${port}${url.slice(stack.apiUrl.length)}&token=${token}`, {
      headers: bearer,
    });
  }
  await sql`
    update audit_log_private.rate_limits set accepted_at = array_fill(clock_timestamp(), array[60])
    where api_key_id = ${keyId}`;
  await send(429, url, { headers: bearer });
  await client.rpc("revoke_api_key", { organization_id: organizationId, api_key_id: keyId })
    .throwOnError();
  await send(401, url, { headers: bearer });
  return answers;
}

/** A key that has taken another's place, as the admin console makes them; some tries are refused. */
async function newKey({ apiUrl, publishableKey }: Stack, sql: postgres.Sql) {
  const client = createClient(apiUrl, publishableKey, {
    auth: { persistSession: false, autoRefreshToken: false },
    db: { schema: "audit_log" },
  });
  const { data: { user } } = await client.auth.signUp({
    email: `${crypto.randomUUID()}@example.com`,
    password: crypto.randomUUID(),
  });
  const [organization] = await sql`
    insert into audit_log.organizations (name) values ('Test') returning id`;
  const organization_id: string = organization?.["id"];
  await sql`
    insert into audit_log.organization_members (organization_id, user_id, role)
    values (${organization_id}, ${user?.id ?? ""}, 'admin')`;
  await insertEntries(sql, organization_id, "2026-03-01", 1);
  const refused = await client.rpc("create_api_key", { organization_id, name: " " });
  assertEquals(refused.error?.code, "22023");
  const { data: first } = await client.rpc("create_api_key", { organization_id, name: "test" })
    .throwOnError();
  const { data: second } = await client
    .rpc("rotate_api_key", { organization_id, api_key_id: first.id }).throwOnError();
  const again = await client.rpc("rotate_api_key", { organization_id, api_key_id: first.id });
  assertEquals(again.error?.code, "AL001");
  tokens.push(first.token, second.token);
  const { id, token }: { id: string; token: string } = second;
  return { id, token, organizationId: organization_id, client };
}

/** From now on, every statement and its parameters are in Postgres's log. */
async function logEverything(sql: postgres.Sql): Promise<void> {
  await sql`alter system set log_statement = 'all'`;
  await sql`alter system set log_min_messages = 'debug1'`;
  await sql`select pg_reload_conf()`;
  for (let setting = ""; setting !== "all";) {
    setting = (await sql`show log_statement`)[0]?.["log_statement"];
  }
}

async function explainKey(url: string): Promise<string[]> {
  const plans: string[] = [];
  const session = postgres(url, { max: 1, onnotice: ({ message }) => plans.push(message ?? "") });
  await session.unsafe(`
    load 'auto_explain';
    set auto_explain.log_min_duration = 0;
    set auto_explain.log_nested_statements = on;
    set auto_explain.log_verbose = on;
    set client_min_messages = log`);
  const [key] = await session`
    select set_config('request.jwt.claims', json_build_object('sub', user_id)::text, false),
      organization_id, audit_log.create_api_key(organization_id, 'explained') as created
    from audit_log.organization_members limit 1`;
  const { organization_id, created } = key ?? {};
  const [successor] = await session`
    select audit_log.rotate_api_key(${organization_id}, ${created.id}) ->> 'token' as token`;
  tokens.push(created.token, successor?.["token"]);
  await session.end();
  return plans;
}

async function allRows(sql: postgres.Sql): Promise<string> {
  const relations = await sql`
    select oid::regclass::text as name from pg_class
    where relkind in ('r', 'p', 'm')
      and relnamespace::regnamespace::text not in ('pg_catalog', 'information_schema', 'pg_toast')
    union values ('pg_stat_activity') union select to_regclass('pg_stat_statements')::text`;
  let text = "";
  for (const { name } of relations) {
    if (!name) continue;
    const rows = await sql.unsafe(`select row_to_json(t)::text as row from ${name} t`);
    text += rows.map(({ row }) => `${name} ${row}\n`).join("");
  }
  return text;
}

/** The lines of a text that contain a token, or the 32 random characters of one. */
function linesWithTokens(text: string): string[] {
  return linesWith(text, tokens.flatMap((token) => [token.slice(4, 36), btoa(token)]));
}

async function linesWithHashes(text: string): Promise<string[]> {
  const hashes = await Promise.all(tokens.map(tokenHash));
  const base64 = hashes.map((hex) => Buffer.from(hex, "hex").toString("base64").slice(0, 40));
  return linesWith(text, [...hashes, ...base64]);
}

function linesWith(text: string, secrets: string[]): string[] {
  const lower = secrets.map((secret) => secret.toLowerCase());
  return text.split("\n").filter((line) => lower.some((s) => line.toLowerCase().includes(s)));
}

describe("no token is", () => {
  it("in any row of the database, which keeps its hash", async () => {
    assertEquals(linesWithTokens(written.rows), []);
    const kept = await linesWithHashes(written.rows);
    assertEquals(kept.length, 4);
    for (const line of kept) assert(line.startsWith("audit_log_private.api_key_hashes "), line);
  });

  const statuses = [400, 401, 404, 405, 429, 500].map((status) => `"status":${status}`);
  /** Where no hash is either: its text, and what shows that all was tried. */
  const places: [place: string, text: string, shown: string[]][] = [
    ["an answer of the function", written.answers, statuses],
    [
      "what the function, the gateway and the Data API print",
      written.output,
      [...statuses, '"status":200', "lock timeout", "public-audit-log does not answer"],
    ],
    ["Postgres's log", written.serverLog, ["canceling statement due to lock timeout"]],
  ];
  for (const [place, text, shown] of places) {
    it(`in ${place}, nor its hash`, async () => {
      for (const part of shown) assertStringIncludes(text, part);
      assertEquals(linesWithTokens(text), []);
      assertEquals(await linesWithHashes(text), []);
    });
  }

  it("in Postgres's log with every statement in it, where its hash then is", async () => {
    assertStringIncludes(written.fullServerLog, "create_api_key");
    assertStringIncludes(written.fullServerLog, "rotate_api_key");
    assertEquals(linesWithTokens(written.fullServerLog), []);
    assert((await linesWithHashes(written.fullServerLog)).length > 0);
  });

  it("in the log of auto_explain, however much it tells of a key's making", () => {
    const inserts = written.plans
      .filter((plan) => plan.includes("insert into audit_log_private.api_key_hashes"));
    assertEquals(inserts.length, 2);
    assert(written.plans.some((plan) => plan.includes("set successor_id")));
    assertEquals(linesWithTokens(written.plans.join("\n")), []);
  });
});
