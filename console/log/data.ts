import { keepPreviousData, useQuery } from "@tanstack/react-query";
import * as z from "zod/mini";
import type { Database } from "../../supabase/functions/public-audit-log/database.types.ts";
import { countDays, type Days } from "../shared/days.ts";
import { call, check } from "../shared/transport.ts";
import { readSeals, type Sealing } from "../seals/data.ts";
import { useOrganization } from "../shell/organization.tsx";

const ACTIONS = z.array(z.object({ code: z.string(), deprecated_at: z.nullable(z.string()) }));

export function useActions() {
  const { id } = useOrganization();
  return useQuery({
    queryKey: ["actions", id],
    queryFn: ({ signal }) => call(ACTIONS, "list_actions", { organization_id: id }, signal),
  });
}

export interface LogFilter extends Days {
  organizationId: string;
  action?: string | undefined;
  /** Only the entries of this person. */
  person?: string | undefined;
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
  const page = { page_limit: limit, page_offset: offset, newest_first: true };
  const { total, items } = await call(LOG_PAGE, "read_audit_log", pageOf(filter, page), signal);
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

const FEED_PAGE = z.object({
  total: z.number(),
  items: z.string(),
  next: z.string(),
  has_more: z.boolean(),
});

const FEED_PAGE_SIZE = 1000;

/** Reads up to 1000 entries after a cursor, each as the text of its JSON. None is missed or repeated. */
export async function readFeed(filter: LogFilter, after: string, signal: AbortSignal) {
  const query = pageOf(filter, { page_limit: FEED_PAGE_SIZE, after });
  const { items, ...page } = await call(FEED_PAGE, "read_audit_log", query, signal);
  // Each line is one entry, because the JSON of an entry has no line breaks.
  const lines = items.trim().slice(1, -1).split("\n").filter(Boolean)
    .map((line) => line.endsWith(",") ? line.slice(0, -1) : line);
  return { ...page, items: lines };
}

type PageQuery = Database["audit_log"]["CompositeTypes"]["page_query"];

/** Makes the arguments for a page of a filter's entries or seals. */
export function pageOf(filter: LogFilter, page: Partial<PageQuery>) {
  const query: PageQuery = {
    start_date: filter.start,
    end_date: filter.end,
    action: filter.action ?? null,
    user_email: filter.person ?? null,
    page_limit: null,
    page_offset: null,
    newest_first: null,
    after: null,
    ...page,
  };
  return { organization_id: filter.organizationId, query };
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
  items: z.array(z.object({ day: z.string(), hour: z.optional(z.number()), entries: z.number() })),
});

const MAX_DAYS_BY_HOUR = 7;

/** The counts and seals of a range of days. */
export interface LogDays extends Days, Sealing {
  /** Entries by day. Days without any are left out. */
  counts: Map<string, number>;
  /** Entries by hour, as in `2026-11-22 09`; null for a long range. */
  hours: Map<string, number> | null;
}

async function readDays(filter: LogFilter, signal: AbortSignal): Promise<LogDays> {
  const { start, end } = filter;
  const by_hour = countDays(filter) <= MAX_DAYS_BY_HOUR;
  const [{ items: found }, sealing] = await Promise.all([
    call(COUNTS, "daily_entry_counts", { ...pageOf(filter, {}), by_hour }, signal),
    readSeals((page) => pageOf(filter, page), signal),
  ]);
  const counts = new Map<string, number>();
  for (const { day, entries } of found) counts.set(day, (counts.get(day) ?? 0) + entries);
  const hours = by_hour
    ? new Map(found.map(({ day, hour = 0, entries }) => [hourOf(day, hour), entries]))
    : null;
  return { start, end, counts, hours, ...sealing };
}

export function hourOf(day: string, hour: number): string {
  return `${day} ${String(hour).padStart(2, "0")}`;
}

/** The days of a filter. Until the answer comes, the query returns those of the filter before. */
export function useLogDays(filter: LogFilter) {
  return useQuery({
    queryKey: ["log", filter.organizationId, "days", filter],
    queryFn: ({ signal }) => readDays(filter, signal),
    placeholderData: keepPreviousData,
  });
}
