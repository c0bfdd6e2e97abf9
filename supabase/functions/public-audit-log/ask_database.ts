import { createClient, type PostgrestError, type SupabaseClient } from "@supabase/supabase-js";
import * as z from "zod";
import type { Database } from "./database.types.ts";
import type { Environment } from "./environment.ts";
import type { Resource } from "./parse_query.ts";
import type { Query } from "./query_schema.ts";
import { leaveItemsUnparsed } from "./unparsed_items.ts";

export type DataApiClient = SupabaseClient<Database>;

/** Makes a client with the secret key, and without a person's session to keep or renew. */
export function createDataApiClient(
  { url, secretKey }: Pick<Environment, "url" | "secretKey">,
  { fetch = globalThis.fetch }: { fetch?: typeof globalThis.fetch } = {},
): DataApiClient {
  return createClient<Database>(url, secretKey, {
    auth: { persistSession: false, autoRefreshToken: false, detectSessionInUrl: false },
    db: { schema: "audit_log" },
    global: { fetch },
  });
}

const TIMEOUT = 5_000;
const rateLimit = {
  api_key_id: z.string(),
  /** How many requests a minute the key has, and how many of them are left. */
  quota: z.int().positive(),
  remaining: z.int().nonnegative(),
  /** In seconds, rounded up: until one more request is possible. */
  reset: z.int().positive(),
};
const Accepted = z.object({
  decision: z.literal("accepted"),
  ...rateLimit,
  organization_id: z.string(),
  total: z.int().nonnegative(),
  /** A JSON array in UTF-8, passed on unparsed: see unparsed_items.ts. */
  items: z.custom<Uint8Array<ArrayBuffer>>(isArray, "no items"),
  /** With `after`: the next cursor, and whether it leads to more entries now. */
  cursor: z.string().nullable(),
  has_more: z.boolean().nullable(),
  altered: z.array(z.string()).nullable(),
});
const Answer = z.discriminatedUnion("decision", [
  z.object({ decision: z.literal("unauthorized") }),
  z.object({ decision: z.literal("rate_limited"), ...rateLimit }),
  z.object({
    decision: z.enum(["invalid_query", "invalid_cursor", "too_many"]),
    ...rateLimit,
    /** With an invalid query: the actions that exist, because a query with another one is invalid, too. */
    actions: z.array(z.string()),
  }),
  Accepted,
]);

function isArray(items: unknown): boolean {
  return items instanceof Uint8Array && items.at(0) === 0x5b && items.at(-1) === 0x5d;
}

export type Reading = z.infer<typeof Accepted>;

/** What the database answered to a request (`public_audit_log` in `4_api/03_api.sql`). */
export type Answered = z.infer<typeof Answer>;

export interface Asked {
  tokenHash: string;
  clientAddress: string | undefined;
  resource: Resource;
  /** `undefined` when the query string is invalid. The database counts the request all the same. */
  query: Query | undefined;
}

/** Has the database decide about a request, in one round trip. Throws if it fails, is slow, or answers something else. */
export async function askDatabase(dataApi: DataApiClient, asked: Asked): Promise<Answered> {
  let items: Uint8Array<ArrayBuffer> | undefined;
  // Each call has its own client, whose fetch keeps the items of this one answer.
  const database = dataApi.schema("audit_log");
  database.fetch = leaveItemsUnparsed(database.fetch ?? fetch, (bytes) => items = bytes);
  const { tokenHash, clientAddress, resource, query } = asked;
  const { data, error, status } = await database.rpc("public_audit_log", {
    token_hash: tokenHash,
    resource,
    ...clientAddress && { client_address: clientAddress },
    ...query && { query: pageQuery(query) },
  })
    // The type that it returns: the Data API passes its text on unparsed.
    .setHeader("Accept", "application/vnd.public-audit-log+json")
    .abortSignal(AbortSignal.timeout(TIMEOUT));
  if (error) throw new Error(`public_audit_log failed: ${describe(error, status)}`);
  const { data: answered, error: mismatch } = Answer.safeParse({ ...Object(data), items });
  if (answered) return answered;
  const { message, path } = mismatch.issues[0] ?? {};
  throw new Error(`public_audit_log answered something else: ${path?.join(".")} ${message}`);
}

type PageQuery = Database["audit_log"]["CompositeTypes"]["page_query"];

function pageQuery({ start, end, action, limit, offset, order, ...others }: Query): PageQuery {
  return {
    // The database ignores a field that it does not know. With one, this does not compile.
    ...others as Pick<PageQuery, keyof typeof others>,
    start_date: start,
    end_date: end,
    actions: action ?? null,
    page_limit: limit,
    page_offset: offset,
    newest_first: order === "desc",
  };
}

/** Describes a failed call for the log. The answer may come from any proxy on the way, and may hold anything. */
function describe(error: PostgrestError, status: number): string {
  if (error.code === "PGRST106") return "PGRST106: expose audit_log in the Data API's settings";
  const message = String(error.message);
  // supabase-js reports a cut-off 200 with its text as the message: it may hold entries.
  if (status >= 200 && status < 300) return `${status}, ${message.length} characters, no JSON`;
  const cause = String(error.details).match(/Caused by: .*/)?.[0];
  // The message may be a page of HTML. The cause of a failed fetch is in the details.
  return [status || null, error.code, message.slice(0, 200), cause].filter(Boolean).join(" ");
}
