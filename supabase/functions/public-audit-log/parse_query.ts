import { z } from "zod";
import { EntriesQuery, type Query, SealsQuery } from "./query_schema.ts";

/** The query of each resource. */
const QUERIES = { entries: EntriesQuery, seals: SealsQuery };

export type Resource = keyof typeof QUERIES;

/** One bad parameter: what was seen, and what it must be. */
export const ParameterError = z.object({
  parameter: z.string().describe("Its name"),
  detail: z.string().describe("What was seen, and what it must be"),
}).meta({ id: "ParameterError", description: "One bad parameter of the query string" });

export type ParameterError = z.infer<typeof ParameterError>;

/** The query, or an error for every bad parameter. */
export type QueryResult =
  | { query: Query; errors?: never }
  | { query?: never; errors: ParameterError[] };

/** At most this many unknown parameters are reported. */
export const MAX_UNKNOWN = 20;

/** A longer query string is not parsed: no valid one is as long. */
export const MAX_LENGTH = 12_288;

/**
 * Checks a query string, without its question mark. Anything unknown, repeated or out of range is an
 * error, never ignored.
 */
export function parseQuery(text: string, resource: Resource = "entries"): QueryResult {
  if (text.length > MAX_LENGTH) {
    const detail = `${text.length} characters: must be at most ${MAX_LENGTH}`;
    return { errors: [{ parameter: "(query string)", detail }] };
  }
  // URLSearchParams drops one leading question mark: without this one, that of a parameter "?start".
  const given = Map.groupBy(new URLSearchParams(`?${text}`), ([name]) => name);
  const values = Object.fromEntries(
    Array.from(given, ([name, pairs]) => [name, pairs.length === 1 ? pairs[0]?.[1] : pairs]),
  );
  const schema = QUERIES[resource];
  const { data, error } = schema.safeParse(values);

  const errors = new Map<string, string>();
  for (const issue of error?.issues ?? []) {
    if (issue.code === "unrecognized_keys") {
      const names = Object.keys(schema.shape).join(", ");
      for (const name of issue.keys.slice(0, MAX_UNKNOWN)) {
        errors.set(redacted(name), `unknown parameter: must be one of: ${names}`);
      }
    } else {
      const name = String(issue.path[0]);
      const value = seen(given.get(name)?.map(([, value]) => value) ?? []);
      if (!errors.has(name)) errors.set(name, `${value}: ${issue.message}`);
    }
  }
  if (resource === "entries" && given.has("after")) {
    for (const name of ["offset", "order"].filter((name) => given.has(name))) {
      errors.set(
        name,
        "must not be given with after, which says where to go on, and in which order",
      );
    }
  }
  if (data && errors.size === 0) return { query: data };
  return { errors: Array.from(errors, ([parameter, detail]) => ({ parameter, detail })) };
}

/** The error for an `after` that the database refuses. */
export function wrongCursor({ after = "" }: Query): ParameterError {
  return {
    parameter: "after",
    detail:
      `${seen([after])}: no cursor for this organization, start, end and action, or from before ` +
      "a restore of the database. Start again with after=beginning, and drop what you have already, " +
      "by id and created_at",
  };
}

function seen(given: string[]): string {
  if (given.length === 0) return "missing";
  if (given.length > 1) return `given ${given.length} times`;
  return JSON.stringify(redacted(given[0] ?? ""));
}

/** The start of what a caller sent, without tokens: people paste errors into tickets and chats. */
function redacted(text: string): string {
  text = text.replace(/pck_\w+/g, "pck_…");
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
}
