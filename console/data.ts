import {
  createClient,
  isAuthRetryableFetchError,
  type PostgrestError,
  type PostgrestSingleResponse,
} from "@supabase/supabase-js";
import { z } from "zod";
import type { Database, Enums } from "../supabase/functions/public-audit-log/database.types.ts";

// Everything that the console asks of the project, as the person who has signed in. The database's
// functions decide what that person gets; there is no other wall, and this page needs none.

// Without code made from strings, which the page's policy forbids.
z.config({ jitless: true });

const { VITE_SUPABASE_URL: PROJECT_URL, VITE_SUPABASE_PUBLISHABLE_KEY: PUBLISHABLE_KEY } =
  import.meta.env;

/** Longer than the 8 seconds after which the platform ends a statement. */
const TIMEOUT_MS = 15_000;

export const supabase = createClient<Database>(PROJECT_URL, PUBLISHABLE_KEY, {
  // TanStack Query asks once more. Four times each would leave the person waiting for a message.
  db: { retry: false },
  global: {
    fetch: (input, init) => {
      const timeout = AbortSignal.timeout(TIMEOUT_MS);
      const signal = init?.signal ? AbortSignal.any([init.signal, timeout]) : timeout;
      return fetch(input, { ...init, signal });
    },
  },
});

/** Where external applications read the log. */
export const AUDIT_LOG_URL = new URL("functions/v1/public-audit-log", `${PROJECT_URL}/`).href;

export type Action = Enums<"audit_action">;
export const ACTIONS: readonly Action[] = [
  "agent_added",
  "conversation_created",
  "message_created",
  "feedback_given",
];

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
  return parse(z.array(ORGANIZATION), await supabase.rpc("list_organizations"));
}

const API_KEY = z.object({
  id: z.string(),
  name: z.string(),
  hint: z.string(),
  created_at: z.string(),
  created_by_email: z.string().nullable(),
  revoked_at: z.string().nullable(),
  revoked_by_email: z.string().nullable(),
  last_used_at: z.string().nullable(),
  requests_last_minute: z.number(),
});
export type ApiKey = z.infer<typeof API_KEY>;

/** All keys of an organization, active ones first, then the latest first. */
export async function listApiKeys(organizationId: string): Promise<ApiKey[]> {
  const answer = await supabase.rpc("list_api_keys", { organization_id: organizationId });
  return parse(z.array(API_KEY), answer);
}

const NEW_API_KEY = z.object({ name: z.string(), token: z.string() });
export type NewApiKey = z.infer<typeof NEW_API_KEY>;

/**
 * Makes a key; the answer has its token, for the only time. The caller chooses the id, and asking
 * again with the same one makes no second key.
 */
export async function createApiKey(
  organizationId: string,
  name: string,
  id: string,
): Promise<NewApiKey> {
  const answer = await supabase.rpc("create_api_key", {
    organization_id: organizationId,
    name,
    api_key_id: id,
  });
  return parse(NEW_API_KEY, answer);
}

/** Revokes a key. Revoking again changes nothing. */
export async function revokeApiKey(organizationId: string, id: string): Promise<void> {
  unwrap(
    await supabase.rpc("revoke_api_key", { organization_id: organizationId, api_key_id: id }),
  );
}

export interface LogQuery {
  organizationId: string;
  /** Days, `YYYY-MM-DD`, UTC, both inclusive. */
  start: string;
  end: string;
  action: Action | null;
  limit: number;
  offset: number;
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

const LOG_PAGE = z.object({
  total: z.number(),
  items: z.string().transform(parseExactly).pipe(z.array(AUDIT_ENTRY)),
});
export type LogPage = z.infer<typeof LOG_PAGE>;

/** A page of an organization's log, newest first, and how many entries there are. */
export async function readLog(query: LogQuery): Promise<LogPage> {
  const answer = await supabase.rpc("read_audit_log", {
    organization_id: query.organizationId,
    start_date: query.start,
    end_date: query.end,
    ...query.action ? { action: query.action } : {},
    page_limit: query.limit,
    page_offset: query.offset,
    newest_first: true,
  });
  return parse(LOG_PAGE, answer);
}

/** Parses JSON and keeps every digit of its numbers, for JSON.stringify, where the browser can. */
function parseExactly(text: string): unknown {
  return JSON.parse(
    text,
    (_key, value, context) =>
      typeof value === "number" && context && JSON.rawJSON ? JSON.rawJSON(context.source) : value,
  );
}

function parse<T>(schema: z.ZodType<T>, answer: PostgrestSingleResponse<unknown>): T {
  const { success, data } = schema.safeParse(unwrap(answer));
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
  const { error } = await supabase.auth.refreshSession();
  if (error && !isAuthRetryableFetchError(error)) await supabase.auth.signOut({ scope: "local" });
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
        "An earlier attempt did make this key, but its token was lost on the way. " +
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
