import { AuthClient, isAuthRetryableFetchError } from "@supabase/auth-js";
import {
  PostgrestClient,
  type PostgrestError,
  type PostgrestSingleResponse,
} from "@supabase/postgrest-js";
import * as z from "zod/mini";
import type { Database, Enums } from "../supabase/functions/public-audit-log/database.types.ts";
import type { Days } from "./days.ts";

// Everything that the console asks of the project, as the person who has signed in. The database's
// functions decide what that person gets; there is no other wall, and this page needs none.
// The two clients are those that supabase-js is made of; the rest of it would weigh 27 kB.

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

const api = new PostgrestClient<Database>(`${PROJECT_URL}/rest/v1`, {
  headers: { apikey: PUBLISHABLE_KEY },
  fetch: async (input, init) => {
    const { data } = await auth.getSession();
    const headers = new Headers(init?.headers);
    headers.set("Authorization", `Bearer ${data.session?.access_token ?? PUBLISHABLE_KEY}`);
    return fetchInTime(input, { ...init, headers });
  },
  // TanStack Query asks once more. Four times each would leave the person waiting for a message.
  retry: false,
});

/** Where external applications read the log. */
export const AUDIT_LOG_URL = `${PROJECT_URL}/functions/v1/public-audit-log`;

/** Requests that a key may make in a minute. */
export const QUOTA = 60;

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

const ORGANIZATION = z.object({ id: z.string(), name: z.string(), role: z.string() });
export type Organization = z.infer<typeof ORGANIZATION>;

/** The organizations that the person belongs to, by name; `role` is `admin` or `member`. */
export async function listOrganizations(): Promise<Organization[]> {
  return parse(z.array(ORGANIZATION), await api.rpc("list_organizations"));
}

const KEY_STATES = ["active", "expiring", "expired", "revoked"] as const;

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
  state: z.enum(KEY_STATES),
  last_used_at: z.nullable(z.string()),
  requests_last_minute: z.number(),
});
export type ApiKey = z.infer<typeof API_KEY>;

/** All keys of an organization, active ones first, then the latest first. */
export async function listApiKeys(organization_id: string): Promise<ApiKey[]> {
  return parse(z.array(API_KEY), await api.rpc("list_api_keys", { organization_id }));
}

const USE = z.object({
  day: z.string(),
  api_key_id: z.nullable(z.string()),
  requests: z.number(),
  last_address: z.nullable(z.string()),
});
export type Use = z.infer<typeof USE>;

/** Requests by key and day. */
export async function listUse(organization_id: string, { start, end }: Days): Promise<Use[]> {
  return parse(
    z.array(USE),
    await api.rpc("api_key_usage", { organization_id, start_date: start, end_date: end }),
  );
}

const NEW_API_KEY = z.object({ name: z.string(), token: z.string() });
export type NewApiKey = z.infer<typeof NEW_API_KEY>;

/** What a new key is asked for with. The caller chooses the id: asking again makes no second key. */
export interface KeyRequest {
  id: string;
  name: string;
  /** ISO 8601; null is never. */
  expiresAt: string | null;
}

/** Makes a key; the answer has its token, for the only time. */
export async function createApiKey(
  organization_id: string,
  { id, name, expiresAt }: KeyRequest,
): Promise<NewApiKey> {
  const answer = await api.rpc("create_api_key", {
    organization_id,
    name,
    api_key_id: id,
    ...expiresAt ? { expires_at: expiresAt } : {},
  });
  return parse(NEW_API_KEY, answer);
}

export interface Rotation {
  /** The key that ends after the overlap. */
  id: string;
  /** The id of the new key: asking again makes no second one. */
  successorId: string;
  /** As Postgres writes an interval. */
  overlap: string;
}

/** Makes the successor of a key; the answer has its token, for the only time. */
export async function rotateApiKey(
  organization_id: string,
  { id, successorId, overlap }: Rotation,
): Promise<NewApiKey> {
  const answer = await api.rpc("rotate_api_key", {
    organization_id,
    api_key_id: id,
    successor_id: successorId,
    overlap,
  });
  return parse(NEW_API_KEY, answer);
}

/** Revokes a key. Revoking again changes nothing. */
export async function revokeApiKey(organization_id: string, api_key_id: string): Promise<void> {
  unwrap(await api.rpc("revoke_api_key", { organization_id, api_key_id }));
}

/** Which entries of an organization. */
export interface LogFilter extends Days {
  organizationId: string;
  action: Action | undefined;
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
  total: number;
  items: AuditEntry[];
}

/** A page of an organization's log, newest first, and how many entries there are. */
export async function readLog(
  filter: LogFilter,
  { limit, offset }: { limit: number; offset: number },
  signal: AbortSignal,
): Promise<LogPage> {
  const answer = await api.rpc("read_audit_log", {
    ...logArguments(filter),
    page_limit: limit,
    page_offset: offset,
    newest_first: true,
  }).abortSignal(signal);
  const { total, items } = parse(LOG_PAGE, answer);
  return { total, items: parseEntries(items) };
}

const FEED_PAGE = z.object({ total: z.number(), items: z.string(), next: z.string() });

/** Entries that a cursor had not seen, each as the text of its JSON, and the cursor that has. */
export interface FeedPage {
  total: number;
  items: string[];
  next: string;
  /** Whether there was no more at that moment. */
  isCaughtUp: boolean;
}

export const FEED_PAGE_SIZE = 1000;

/** Up to 1000 entries of a filter after a cursor, or from the `beginning`: none is missed or repeated. */
export async function readFeed(
  filter: LogFilter,
  after: string,
  signal: AbortSignal,
): Promise<FeedPage> {
  const answer = await api.rpc("read_audit_log", {
    ...logArguments(filter),
    page_limit: FEED_PAGE_SIZE,
    after,
  }).abortSignal(signal);
  const { total, items, next } = parse(FEED_PAGE, answer);
  // One entry a line: JSON has no line break in it.
  const lines = items.trim().slice(1, -1).split("\n").filter(Boolean)
    .map((line) => line.endsWith(",") ? line.slice(0, -1) : line);
  return { total, items: lines, next, isCaughtUp: lines.length < FEED_PAGE_SIZE };
}

function logArguments({ organizationId, start, end, action }: LogFilter) {
  return {
    organization_id: organizationId,
    start_date: start,
    end_date: end,
    ...action ? { action } : {},
  };
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

/** How many entries each day has; days without any are left out. */
export async function countByDay(
  filter: LogFilter,
  signal: AbortSignal,
): Promise<Map<string, number>> {
  const answer = await api.rpc("daily_entry_counts", logArguments(filter)).abortSignal(signal);
  return new Map(parse(z.array(DAY_COUNT), answer).map(({ day, entries }) => [day, entries]));
}

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

export interface Seals {
  /** The latest seal of each day that has one. */
  byDay: Map<string, Seal>;
  /** Days whose entries were changed silently after they had been sealed. */
  altered: Set<string>;
}

/** Whether a day's entries are proven to be those of the day it was sealed; the worst first. */
export const SEAL_STATES = {
  altered: "altered after sealing",
  open: "not yet sealed",
  sealed: "sealed",
  empty: "",
} as const;
export type SealState = keyof typeof SEAL_STATES;

export function sealState(day: string, entries: number, seals: Seals | undefined): SealState {
  if (seals?.altered.has(day)) return "altered";
  if (seals?.byDay.has(day)) return "sealed";
  return seals && entries > 0 ? "open" : "empty";
}

const SEAL_PAGE_SIZE = 1000;

/** The seals of a range of days. */
export async function listSeals(
  organizationId: string,
  days: Days,
  signal: AbortSignal,
): Promise<Seals> {
  const seals: Seals = { byDay: new Map(), altered: new Set() };
  for (let offset = 0, total = 1; offset < total; offset += SEAL_PAGE_SIZE) {
    const page = await readSeals(organizationId, days, SEAL_PAGE_SIZE, offset, signal);
    total = page.total;
    for (const seal of page.items) seals.byDay.set(seal.day, seal);
    for (const day of page.altered) seals.altered.add(day);
  }
  return seals;
}

/** The end of the organization's chain of seals: whoever keeps it can check all the others. */
export async function latestSeal(
  organizationId: string,
  signal: AbortSignal,
): Promise<Seal | null> {
  const all = { start: "0001-01-01", end: "9999-12-31" };
  const { total } = await readSeals(organizationId, all, 1, 0, signal);
  const { items } = await readSeals(organizationId, all, 1, Math.max(0, total - 1), signal);
  return items[0] ?? null;
}

async function readSeals(
  organization_id: string,
  { start, end }: Days,
  page_limit: number,
  page_offset: number,
  signal: AbortSignal,
) {
  const answer = await api.rpc("list_seals", {
    organization_id,
    start_date: start,
    end_date: end,
    page_limit,
    page_offset,
  }).abortSignal(signal);
  return parse(SEAL_PAGE, answer);
}

function parse<T>(schema: z.ZodMiniType<T>, answer: PostgrestSingleResponse<unknown>): T {
  return check(schema, unwrap(answer));
}

function check<T>(schema: z.ZodMiniType<T>, value: unknown): T {
  const { success, data } = z.safeParse(schema, value);
  if (success) return data;
  throw new RequestError(
    "The server sent something unexpected. Reload, and report it if it stays.",
  );
}

function unwrap({ data, error, status }: PostgrestSingleResponse<unknown>): unknown {
  if (!error) return data;
  if (status === 401) void renewSession();
  throw new RequestError(...explain(error, status));
}

/**
 * After the person's token was refused: renews the session, or ends it when Auth says that it is over.
 * When Auth says nothing, it stays.
 */
async function renewSession(): Promise<void> {
  const { error } = await auth.refreshSession();
  if (error && !isAuthRetryableFetchError(error)) await auth.signOut({ scope: "local" });
}

function explain(
  { code, message }: PostgrestError,
  status: number,
): [message: string, isOutcomeUnknown?: boolean] {
  if (status === 401) {
    return ["Your session could not be renewed. Try again; if it stays so, sign out and in."];
  }
  switch (code) {
    case "22023":
      // The database's own words, which say what to change.
      return [`${message.slice(0, 1).toUpperCase()}${message.slice(1)}.`];
    case "23505":
      return [
        message.includes("rotated")
          ? `${message.slice(0, 1).toUpperCase()}${message.slice(1)}.`
          : "An earlier attempt did make this key, but its token was lost on the way. " +
            "Close this, revoke the key in the list, and create another.",
      ];
    case "42501":
      return [
        "You do not administer this organization any more. Ask another administrator, or reload.",
      ];
  }
  if (status === 0) {
    return ["No answer from the server. Check your connection, then try again.", true];
  }
  return [
    `The server could not do it (${[status, code].filter(Boolean).join(", ")}). ` +
    "Try again in a minute.",
    status >= 500,
  ];
}
