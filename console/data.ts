import { AuthClient, isAuthRetryableFetchError } from "@supabase/auth-js";
import * as z from "zod/mini";
import type { Database, Enums } from "../supabase/functions/public-audit-log/database.types.ts";
import type { Days } from "./days.ts";

// Everything that the console asks of the project, as the person who has signed in. The database's
// functions decide what that person gets; there is no other wall, and this page needs none.
// Of supabase-js only its client of Auth is here: all of it would weigh 40 kB more.

// Without code made from strings, which the page's policy forbids.
z.config({ jitless: true });

const { VITE_SUPABASE_URL: PROJECT_URL, VITE_SUPABASE_PUBLISHABLE_KEY: PUBLISHABLE_KEY } =
  import.meta.env;

/** Longer than the 8 seconds after which the platform ends a statement. */
const TIMEOUT_MS = 15_000;

function fetchInTime(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  const signal = init?.signal ? AbortSignal.any([init.signal, timeout]) : timeout;
  return fetch(input, { ...init, signal });
}

export const auth = new AuthClient({
  url: `${PROJECT_URL}/auth/v1`,
  headers: { apikey: PUBLISHABLE_KEY, Authorization: `Bearer ${PUBLISHABLE_KEY}` },
  storageKey: "audit-log-console-auth-token",
  persistSession: true,
  autoRefreshToken: true,
  // Otherwise a link with a session in it would sign its reader into the account of its writer.
  detectSessionInUrl: false,
  fetch: fetchInTime,
});

/** Where external applications read the log. */
export const AUDIT_LOG_URL = `${PROJECT_URL}/functions/v1/public-audit-log`;

export type Action = Enums<"audit_action">;
export const ACTIONS = [
  "agent_added",
  "conversation_created",
  "message_created",
  "feedback_given",
] as const satisfies readonly Action[];

/** Why something that was asked for did not happen; `message` says what to do. */
export class RequestError extends Error {
  override name = "RequestError";

  /** Whether it may have happened all the same, because no answer came. */
  readonly isOutcomeUnknown: boolean;

  constructor(message: string, isOutcomeUnknown = false) {
    super(message);
    this.isOutcomeUnknown = isOutcomeUnknown;
  }
}

const ORGANIZATION = z.object({ id: z.string(), name: z.string(), is_admin: z.boolean() });
export type Organization = z.infer<typeof ORGANIZATION>;

/** The organizations that the person belongs to, by name, and whether they administer it now. */
export function listOrganizations(): Promise<Organization[]> {
  return call(z.array(ORGANIZATION), "list_organizations", {});
}

const API_KEY = z.object({
  id: z.string(),
  name: z.string(),
  hint: z.string(),
  created_at: z.string(),
  created_by_email: z.nullable(z.string()),
  revoked_at: z.nullable(z.string()),
  revoked_by_email: z.nullable(z.string()),
  expires_at: z.nullable(z.string()),
  successor_id: z.nullable(z.string()),
  state: z.enum(["active", "expiring", "expired", "revoked"]),
  last_used_at: z.nullable(z.string()),
  requests_last_minute: z.number(),
  /** Requests that the key may make in a minute. */
  quota: z.number(),
});
export type ApiKey = z.infer<typeof API_KEY>;

/** All keys of an organization, active ones first, then the latest first. */
export function listApiKeys(organization_id: string): Promise<ApiKey[]> {
  return call(z.array(API_KEY), "list_api_keys", { organization_id });
}

const USE = z.object({
  day: z.string(),
  api_key_id: z.nullable(z.string()),
  requests: z.number(),
  last_address: z.nullable(z.string()),
});
export type Use = z.infer<typeof USE>;

/** Requests by key and day, in the order of days. */
export function listUse(organization_id: string, { start, end }: Days): Promise<Use[]> {
  return call(z.array(USE), "api_key_usage", { organization_id, start_date: start, end_date: end });
}

const NEW_API_KEY = z.object({ name: z.string(), token: z.string() });
export type NewApiKey = z.infer<typeof NEW_API_KEY>;

/** Makes a key with the caller's id, so that asking again makes no second one. Only this answer has its token. */
export function createApiKey(request: Arguments<"create_api_key">): Promise<NewApiKey> {
  return call(NEW_API_KEY, "create_api_key", request);
}

/** Makes the successor of a key, with the caller's id. Only this answer has its token. */
export function rotateApiKey(request: Arguments<"rotate_api_key">): Promise<NewApiKey> {
  return call(NEW_API_KEY, "rotate_api_key", request);
}

/** Revokes a key. Revoking again changes nothing. */
export async function revokeApiKey(request: Arguments<"revoke_api_key">): Promise<void> {
  await call(z.unknown(), "revoke_api_key", request);
}

/** Which entries of an organization. */
export interface LogFilter extends Days {
  organizationId: string;
  action?: Action | undefined;
}

const AUDIT_ENTRY = z.object({
  id: z.string(),
  created_at: z.string(),
  action: z.string(),
  user_email: z.string(),
  agent_name: z.string(),
  // Not z.record(), which drops a field of the name __proto__.
  data: z.custom<object>((value) => typeof value === "object" && value !== null),
});
export type AuditEntry = z.infer<typeof AUDIT_ENTRY>;

const LOG_PAGE = z.object({ total: z.number(), items: z.string() });
export interface LogPage {
  /** How many newer entries there are. */
  offset: number;
  total: number;
  items: AuditEntry[];
}

/** A page of an organization's log, newest first, and how many entries there are. */
export async function readLog(
  filter: LogFilter,
  { limit, offset }: { limit: number; offset: number },
  signal: AbortSignal,
): Promise<LogPage> {
  const page = { page_limit: limit, page_offset: offset, newest_first: true };
  const { total, items } = await call(LOG_PAGE, "read_audit_log", pageOf(filter, page), signal);
  return { offset, total, items: parseEntries(items) };
}

const FEED_PAGE = z.object({
  total: z.number(),
  items: z.string(),
  next: z.string(),
  has_more: z.boolean(),
});

/** Entries that a cursor had not seen, each as the text of its JSON, and the cursor that has. */
export interface FeedPage {
  total: number;
  items: string[];
  next: string;
  /** Whether there was no more at that moment. */
  isCaughtUp: boolean;
}

const FEED_PAGE_SIZE = 1000;

/** Up to 1000 entries of a filter after a cursor, or from the `beginning`: none is missed or repeated. */
export async function readFeed(
  filter: LogFilter,
  after: string,
  signal: AbortSignal,
): Promise<FeedPage> {
  const { total, items, next, has_more } = await call(
    FEED_PAGE,
    "read_audit_log",
    pageOf(filter, { page_limit: FEED_PAGE_SIZE, after }),
    signal,
  );
  // One entry a line: JSON has no line break in it.
  const lines = items.trim().slice(1, -1).split("\n").filter(Boolean)
    .map((line) => line.endsWith(",") ? line.slice(0, -1) : line);
  return { total, items: lines, next, isCaughtUp: !has_more };
}

type PageQuery = Database["audit_log"]["CompositeTypes"]["page_query"];

function pageOf({ organizationId, start, end, action }: LogFilter, page: Partial<PageQuery>) {
  const query: PageQuery = {
    start_date: start,
    end_date: end,
    action: action ?? null,
    page_limit: null,
    page_offset: null,
    newest_first: null,
    after: null,
    ...page,
  };
  return { organization_id: organizationId, query };
}

/** The entries of a JSON array, with every digit of their numbers where the browser can. */
export function parseEntries(text: string): AuditEntry[] {
  const value: unknown = JSON.parse(
    text,
    (_, value, context) =>
      typeof value === "number" && context && JSON.rawJSON ? JSON.rawJSON(context.source) : value,
  );
  return check(z.array(AUDIT_ENTRY), value);
}

const DAY_COUNT = z.object({ day: z.string(), entries: z.number() });

const SEAL = z.object({
  sequence: z.number(),
  day: z.string(),
  entries: z.number(),
  sealed_at: z.string(),
  seal: z.string(),
});
export type Seal = z.infer<typeof SEAL>;

const SEAL_PAGE = z.object({
  total: z.number(),
  altered: z.array(z.string()),
  items: z.array(SEAL),
});

/** What the days of a range have. */
export interface LogDays extends Days {
  /** How many entries, of the days that have any. */
  counts: Map<string, number>;
  /** The latest seal of each day that has one. */
  seals: Map<string, Seal>;
  /** Days whose entries were changed silently after they had been sealed. */
  altered: Set<string>;
}

/** The entries by day and the seals of a filter's days. */
export async function readDays(filter: LogFilter, signal: AbortSignal): Promise<LogDays> {
  const { organizationId, start, end, action } = filter;
  const days = { organization_id: organizationId, start_date: start, end_date: end };
  const [counts, sealed] = await Promise.all([
    call(z.array(DAY_COUNT), "daily_entry_counts", { ...days, ...action && { action } }, signal),
    listSeals(filter, signal),
  ]);
  return {
    start,
    end,
    counts: new Map(counts.map(({ day, entries }) => [day, entries])),
    ...sealed,
  };
}

const SEAL_PAGE_SIZE = 1000;

async function listSeals(filter: LogFilter, signal: AbortSignal) {
  const seals = new Map<string, Seal>();
  const altered = new Set<string>();
  for (let offset = 0, total = 1; offset < total; offset += SEAL_PAGE_SIZE) {
    const query = pageOf(filter, { page_limit: SEAL_PAGE_SIZE, page_offset: offset });
    const page = await call(SEAL_PAGE, "list_seals", query, signal);
    total = page.total;
    for (const seal of page.items) seals.set(seal.day, seal);
    for (const day of page.altered) altered.add(day);
  }
  return { seals, altered };
}

/** The end of the organization's chain of seals: whoever keeps it can check all the others. */
export async function latestSeal(
  organizationId: string,
  signal: AbortSignal,
): Promise<Seal | null> {
  return await call(z.nullable(SEAL), "latest_seal", { organization_id: organizationId }, signal);
}

type Functions = Database["audit_log"]["Functions"];
type Arguments<Name extends keyof Functions> = Functions[Name]["Args"];

/** Calls a function of the database as the person who has signed in. */
async function call<T, Name extends keyof Functions>(
  schema: z.ZodMiniType<T>,
  name: Name,
  args: Arguments<Name>,
  signal: AbortSignal | null = null,
): Promise<T> {
  const { data } = await auth.getSession();
  const answer = await fetchInTime(`${PROJECT_URL}/rest/v1/rpc/${name}`, {
    method: "POST",
    headers: {
      apikey: PUBLISHABLE_KEY,
      Authorization: `Bearer ${data.session?.access_token ?? PUBLISHABLE_KEY}`,
      "Content-Type": "application/json",
      "Content-Profile": "audit_log",
    },
    body: JSON.stringify(args),
    signal,
  }).then(async (response) => ({
    status: response.status,
    body: await (response.ok ? response.json() : response.json().catch(() => null)) as unknown,
  })).catch(() => ({ status: 0, body: null }));
  if (answer.status === 200) return check(schema, answer.body);
  if (answer.status === 401) void renewSession();
  const isOutcomeUnknown = answer.status === 0 || answer.status >= 500;
  const explanation = explain(answer.status, z.safeParse(REFUSAL, answer.body).data);
  throw new RequestError(explanation, isOutcomeUnknown);
}

function check<T>(schema: z.ZodMiniType<T>, value: unknown): T {
  const { success, data } = z.safeParse(schema, value);
  if (success) return data;
  throw new RequestError(
    "The server sent something unexpected. Reload, and report it if it stays.",
  );
}

/**
 * After the person's token was refused: renews the session, or ends it when Auth says that it is over.
 * When Auth says nothing, it stays.
 */
async function renewSession(): Promise<void> {
  const { error } = await auth.refreshSession();
  if (error && !isAuthRetryableFetchError(error)) await auth.signOut({ scope: "local" });
}

/** What the Data API answers instead of a result. */
const REFUSAL = z.object({ code: z.string(), message: z.string() });

function explain(
  status: number,
  { code = "", message = "" }: { code?: string; message?: string } = {},
) {
  if (status === 0) return "No answer from the server. Check your connection, then try again.";
  if (status === 401) {
    return "Your session could not be renewed. Try again; if it stays so, sign out and in.";
  }
  if (code === "42501") {
    return "You do not administer this organization any more. Ask another administrator, or reload.";
  }
  if (code === "23505") {
    return "An earlier attempt did make this key, but its token was lost on the way. " +
      "Close this, revoke the key in the list, and create another.";
  }
  if (code === "22023" || code.startsWith("AL")) {
    // The database's own words, which say what to change.
    return `${message.slice(0, 1).toUpperCase()}${message.slice(1)}.`;
  }
  const seen = [status, code].filter(Boolean).join(", ");
  return `The server could not do it (${seen}). Try again in a minute.`;
}
