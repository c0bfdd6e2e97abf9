import { afterAll } from "@std/testing/bdd";
import { startTemporaryStack } from "../../dev/local/temporary_stack.ts";
import { assertDocumented } from "./contract.ts";
import type { Page, SealsPage } from "../../supabase/functions/public-audit-log/page_schema.ts";
import type { Problem } from "../../supabase/functions/public-audit-log/problem.ts";

export type { Page, Problem, SealsPage };

/** A stack of this file's own, unless the environment names a project. `deno task test` starts one for all files. */
const stack = Deno.env.get("SUPABASE_URL") ? null : await startTemporaryStack();
if (stack) afterAll(() => stack[Symbol.asyncDispose]());

export const API_URL = stack?.apiUrl ?? environment("SUPABASE_URL");
export const PUBLISHABLE_KEY = stack?.publishableKey ?? environment("SUPABASE_PUBLISHABLE_KEY");
export const SECRET_KEY = stack?.secretKey ?? environment("SUPABASE_SECRET_KEY");
export const DATABASE_URL = stack?.databaseUrl ?? environment("SUPABASE_DB_URL");

export const AUDIT_LOG_URL = `${API_URL}/functions/v1/public-audit-log`;

export const TWO_DAYS = "start=2026-03-01&end=2026-03-02";
export const ALL_DAYS = "start=0001-01-01&end=9999-12-31";

/** A well-formed token that no key has. */
export const UNKNOWN_TOKEN = "pck_kA4945O5tfG3F6CKCB17uVtUP5v5Qp203PkdLk";

/** Sends any request to the service. Fails unless the answer is as documented, whatever its status. */
export async function send(address: string, init?: RequestInit): Promise<Response> {
  const response = await fetch(`${AUDIT_LOG_URL}${address}`, init);
  // An answer to HEAD has no body.
  if (init?.method !== "HEAD") await assertDocumented(response);
  return response;
}

export function withKey(token: string, headers: Record<string, string> = {}): RequestInit {
  return { headers: { ...headers, Authorization: `Bearer ${token}` } };
}

export function get(token: string, query: string = TWO_DAYS): Promise<Response> {
  return send(`?${query}`, withKey(token));
}

export async function statusOf(token: string, query?: string): Promise<number> {
  return await statusOnly(get(token, query));
}

export async function statusOnly(answer: Promise<Response>): Promise<number> {
  return (await headOf(answer)).status;
}

export async function headOf(answer: Promise<Response>): Promise<Omit<Response, "body">> {
  const response = await answer;
  await response.body?.cancel();
  return response;
}

/** Sends a request, and fails unless it is answered with a page. */
export async function getPage(token: string, query?: string): Promise<Page> {
  return await bodyOf(200, get(token, query));
}

export async function getProblem(status: number, token: string, query?: string): Promise<Problem> {
  return await bodyOf(status, get(token, query));
}

export async function getSeals(token: string, range: string = TWO_DAYS): Promise<SealsPage> {
  return await bodyOf(200, send(`/seals?${range}`, withKey(token)));
}

/** Reads a day of the log as NDJSON, from the pages of the API. */
export async function readDay(token: string, day: string): Promise<string> {
  let lines = "";
  for (let offset = 0;; offset += 1000) {
    const query = `?start=${day}&end=${day}&limit=1000&offset=${offset}`;
    const answer = await send(query, withKey(token, { Accept: "application/x-ndjson" }));
    const page = await answer.text();
    if (page === "") return lines;
    lines += page;
  }
}

/** Returns a query string that goes on with the cursor of its answer. */
export function goOn(query: string, { cursor = "" }: Pick<Page, "cursor">): string {
  const parameters = new URLSearchParams(query);
  parameters.set("after", cursor);
  return String(parameters);
}

/** Follows the feed until it has no more: the entries of all pages, and what to ask for next. */
export async function follow(
  token: string,
  query: string,
): Promise<{ items: Page["items"]; next: string }> {
  const page = await getPage(token, query);
  const next = goOn(query, page);
  if (!page.has_more) return { items: page.items, next };
  const rest = await follow(token, next);
  return { ...rest, items: [...page.items, ...rest.items] };
}

async function bodyOf<T>(status: number, answer: Promise<Response>): Promise<T> {
  const response = await answer;
  if (response.status === status) return await response.json();
  throw new Error(`${response.status} instead of ${status}: ${await response.text()}`);
}

function environment(name: string): string {
  const value = Deno.env.get(name);
  if (value) return value;
  throw new Error(`${name} is not set: name the whole project (CONTRIBUTING.md)`);
}
