// Needs a local stack. Slow.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { it } from "@std/testing/bdd";
import { Buffer } from "node:buffer";
import { join } from "node:path";
import postgres from "postgres";
import { freePort } from "../../dev/local/free_port.ts";
import { databaseUrl } from "../../dev/local/postgres.ts";
import { type Stack, startStack } from "../../dev/local/stack.ts";
import { sha256 } from "../../supabase/functions/public-audit-log/sha256.ts";
import { TWO_DAYS, withKey } from "../helpers/api.ts";
import { call, type NewApiKey, newOrganization, revokeApiKey, signUp } from "../helpers/people.ts";
import { exhaust, type Sql, until, valueOf } from "../../dev/harness/project.ts";

// Makes keys on a stack of its own, uses them rightly and wrongly, and then searches all that was
// written anywhere for them.

const tokens: string[] = [];
const written = await useKeys();

async function useKeys() {
  const dataDir = await Deno.makeTempDir();
  let output = "";
  const log = (text: string) => void (output += text);
  await using cleanUp = new AsyncDisposableStack();
  cleanUp.defer(() => Deno.remove(dataDir, { recursive: true }));
  const [apiPort, databasePort] = [freePort(), freePort()];
  const stack = cleanUp.use(
    await startStack({ dataDir, apiPort, databasePort, progress: () => {}, log }),
  );
  const adminUrl = databaseUrl(databasePort, "supabase_admin", stack.postgres.adminPassword);
  const sql = postgres(adminUrl, { max: 1, onnotice: () => {} });
  cleanUp.defer(() => sql.end());

  await useKey(stack, sql);
  const serverLogPath = join(dataDir, "postgres", "server.log");
  /** Postgres's log as Supabase has it. */
  const serverLog = await Deno.readTextFile(serverLogPath);
  await logEverything(sql);
  await useKey(stack, sql);
  return {
    /** Every row of the database, and of its running statements. */
    rows: await allRows(sql),
    /** What the function, the gateway and the Data API have printed. */
    output,
    serverLog,
    fullServerLog: await Deno.readTextFile(serverLogPath),
  };
}

/** Makes a key and its successor as the admin console does, and uses it rightly, in every wrong way, and when the database fails. */
async function useKey(stack: Stack, sql: Sql): Promise<void> {
  const admin = await signUp(stack);
  const organization = await newOrganization(admin, "Test", stack);
  const { id: organization_id, apiKeyId: api_key_id } = organization;
  const unnamed = await admin.client.rpc("create_api_key", { organization_id, name: " " });
  const rotated = { organization_id, api_key_id };
  const { id, token } = await call<NewApiKey>(admin, "rotate_api_key", rotated);
  const again = await admin.client.rpc("rotate_api_key", rotated);
  assertEquals([unnamed, again].map(({ error }) => error?.code), ["22023", "AL001"]);
  const typo = token.slice(0, 9) + (token[9] === "x" ? "y" : "x") + token.slice(10);
  tokens.push(typo, organization.token, token);

  const path = `/functions/v1/public-audit-log?${TWO_DAYS}`;
  const url = stack.apiUrl + path;
  const bearer = withKey(token);
  const send = async (status: number, address: string, init: RequestInit = bearer) => {
    const response = await fetch(address, init);
    const answer = `${JSON.stringify([...response.headers])}\n${await response.text()}`;
    assertEquals([response.status, linesWithTokens(answer)], [status, []]);
  };

  await send(200, url);
  await send(400, `${url}&limit=x`);
  await send(400, `${url}&api_key=${token}&${token}=1`);
  for (const name of ["action", "user_email", "object", "after", "limit", "since"]) {
    await send(400, `${url}&${name}=${token}`);
  }
  await send(405, url, { ...bearer, method: "POST", body: token });
  await send(404, `${url.replace("?", `/${token}?`)}`);
  await send(401, `${url}&token=${token}`, {});
  await send(401, url, { headers: { Cookie: `token=${token}`, apikey: token } });
  const wrongs = [
    ...[typo, token.toLowerCase(), `${token} ${token}`].map((wrong) => `Bearer ${wrong}`),
    ...[`Basic ${btoa(token)}`, `Token ${token}`, token],
  ];
  for (const Authorization of wrongs) await send(401, url, { headers: { Authorization } });
  await sql.begin(async (transaction) => {
    await transaction`select from audit_log_private.rate_limits where api_key_id = ${id} for update`;
    await send(500, url);
  });
  await sql`alter table audit_log_private.api_key_hashes rename to gone`;
  await send(500, url);
  await sql`alter table audit_log_private.gone rename to api_key_hashes`;
  await exhaust(sql, id);
  await send(429, url);
  await revokeApiKey(admin, { organization_id, id });
  await send(401, url);
}

/** Logs every statement, and its plan with the values. */
async function logEverything(sql: Sql): Promise<void> {
  await sql`load 'auto_explain'`;
  const settings = {
    log_statement: "all",
    log_min_messages: "debug1",
    session_preload_libraries: "auto_explain",
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_nested_statements": "on",
    "auto_explain.log_verbose": "on",
  };
  for (const [name, value] of Object.entries(settings)) {
    await sql.unsafe(`alter system set ${name} = '${value}'`);
  }
  await sql`select pg_reload_conf()`;
  // The Data API connects again, and gets the library.
  await sql`
    select pg_terminate_backend(pid) from pg_stat_activity
    where backend_type = 'client backend' and pid <> pg_backend_pid()`;
  await until(async () => await valueOf(sql`show log_statement`) === "all");
}

async function allRows(sql: Sql): Promise<string> {
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
  const hashes = await Promise.all(tokens.map((token) => sha256(token)));
  const base64 = hashes.map((hex) => Buffer.from(hex, "hex").toString("base64").slice(0, 40));
  return linesWith(text, [...hashes, ...base64]);
}

function linesWith(text: string, secrets: string[]): string[] {
  const lower = secrets.map((secret) => secret.toLowerCase());
  return text.split("\n").filter((line) => lower.some((s) => line.toLowerCase().includes(s)));
}

it("no token is in any row of the database, which keeps its hash", async () => {
  assertEquals(linesWithTokens(written.rows), []);
  const kept = await linesWithHashes(written.rows);
  assertEquals(kept.length, 4);
  for (const line of kept) assert(line.startsWith("audit_log_private.api_key_hashes "), line);
});

it("no token is in what the function, the gateway and the Data API print, or in Postgres's log, and no hash of it is", async () => {
  const { output, serverLog } = written;
  // All of it was tried.
  for (const status of [200, 400, 401, 404, 405, 429, 500]) {
    assertStringIncludes(output, `"status":${status}`);
  }
  assertStringIncludes(output, "lock timeout");
  assertStringIncludes(serverLog, "canceling statement due to lock timeout");
  assertEquals(linesWithTokens(output + serverLog), []);
  assertEquals(await linesWithHashes(output + serverLog), []);
});

it("no token is in Postgres's log when it logs every statement and its plan, but its hash is", async () => {
  const plan = "Query Text: insert into audit_log_private.api_key_hashes";
  for (const part of ["create_api_key", "rotate_api_key", plan]) {
    assertStringIncludes(written.fullServerLog, part);
  }
  assertEquals(linesWithTokens(written.fullServerLog), []);
  assert((await linesWithHashes(written.fullServerLog)).length > 0);
});
