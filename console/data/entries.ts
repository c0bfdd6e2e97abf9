import { keepPreviousData, queryOptions, useQuery } from "@tanstack/react-query";
import * as z from "zod/mini";
import { linesOf } from "../../supabase/functions/_shared/entry_lines.ts";
import type { Database } from "../../supabase/functions/public-audit-log/database.types.ts";
import type { Days } from "../shared/days.ts";
import { actionsOf, type Filter } from "../shared/search_params.ts";
import { call, check } from "./call.ts";
import { useOrganization } from "./organizations.ts";

const ACTIONS = z.array(z.object({
  code: z.string(),
  description: z.string(),
  target: z.nullable(z.string()),
  target_name: z.nullable(z.string()),
  deprecated_at: z.nullable(z.string()),
}));
export type Action = z.infer<typeof ACTIONS>[number];

export function readActions(organizationId: string, signal: AbortSignal): Promise<Action[]> {
  return call(ACTIONS, "list_actions", { organization_id: organizationId }, signal);
}

export function useActions() {
  const { id } = useOrganization();
  return useQuery({
    queryKey: ["actions", id],
    queryFn: ({ signal }) => readActions(id, signal),
  });
}

/** Finds the first ten persons of the log whose address begins with a text, whatever its capitals. */
export function personsQuery(organizationId: string, prefix: string) {
  return queryOptions({
    queryKey: ["persons", organizationId, prefix],
    queryFn: ({ signal }) => {
      const args = { organization_id: organizationId, prefix };
      return call(z.array(z.string()), "find_persons", args, signal);
    },
    staleTime: 60_000,
  });
}

/** Which entries: those of these days that match the filter. */
export interface LogFilter extends Days, Filter {
  organizationId: string;
}

type PageQuery = Database["audit_log"]["CompositeTypes"]["page_query"];

/** Makes the arguments for a filter's page, counts, seals or export. The Data API takes null for what is not given. */
export function queryOf(filter: LogFilter, page: Partial<PageQuery> = {}) {
  const { organizationId, start, end, action, ...others } = filter;
  const query = {
    start_date: start,
    end_date: end,
    actions: action === undefined ? undefined : actionsOf(filter),
    ...others,
    ...page,
  };
  return { organization_id: organizationId, query: query as PageQuery };
}

const AUDIT_ENTRY = z.object({
  id: z.string(),
  created_at: z.string(),
  action: z.string(),
  user_email: z.string(),
  agent_name: z.string(),
  // Not z.record(), which drops a field of the name __proto__.
  data: z.custom<Record<string, unknown>>((value) => typeof value === "object" && value !== null),
});
export type AuditEntry = z.infer<typeof AUDIT_ENTRY>;

const LOG_PAGE = z.object({ total: z.number(), items: z.string() });
export interface LogPage {
  offset: number;
  total: number;
  items: AuditEntry[];
}

/** Reads a page of an organization's log, newest first, and how many entries there are. */
export async function readLog(
  filter: LogFilter,
  { limit, offset }: { limit: number; offset: number },
  signal: AbortSignal,
): Promise<LogPage> {
  const query = queryOf(filter, { page_limit: limit, page_offset: offset, newest_first: true });
  const { total, items } = await call(LOG_PAGE, "read_audit_log", query, signal);
  return { offset, total, items: parseEntries(items) };
}

/** Reads one entry. Null means that there is none. */
export async function readEntry(
  identity: { organization_id: string; id: string; created_at: string },
  signal: AbortSignal,
): Promise<AuditEntry | null> {
  const text = await call(z.nullable(z.string()), "read_entry", identity, signal);
  return text === null ? null : parseEntries(`[${text}]`)[0] ?? null;
}

const FEED_PAGE = z.object({ ...LOG_PAGE.shape, cursor: z.string(), has_more: z.boolean() });

const MAX_PAGE_SIZE = 1000;

/** Reads up to 1000 entries after a cursor, each as the text of its JSON. None is missed or repeated. */
export async function readFeed(filter: LogFilter, after: string, signal: AbortSignal) {
  const query = queryOf(filter, { page_limit: MAX_PAGE_SIZE, after });
  const { items, ...page } = await call(FEED_PAGE, "read_audit_log", query, signal);
  return { ...page, items: linesOf(items) };
}

/** Parses a JSON array of entries. Where the browser can, their numbers keep every digit. */
export function parseEntries(text: string): AuditEntry[] {
  const value: unknown = JSON.parse(
    text,
    (_key, value: unknown, context?: { source: string }) =>
      typeof value === "number" && context && JSON.rawJSON ? JSON.rawJSON(context.source) : value,
  );
  return check(z.array(AUDIT_ENTRY), value);
}

const COUNTS = z.object({
  items: z.array(z.object({ day: z.string(), entries: z.number() })),
});

/** How many entries match a filter on each day of a range that has some. */
export interface EntryCounts extends Days, z.infer<typeof COUNTS> {}

export function useEntryCounts(filter: LogFilter) {
  const { organizationId, start, end } = filter;
  return useQuery({
    queryKey: ["log", organizationId, "counts", filter],
    queryFn: async ({ signal }): Promise<EntryCounts> => {
      const { items } = await call(COUNTS, "daily_entry_counts", queryOf(filter), signal);
      return { start, end, items };
    },
    placeholderData: keepPreviousData,
  });
}
