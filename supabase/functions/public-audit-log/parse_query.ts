import * as z from "zod";
import { entriesQueryOf, EVERYTHING, QUERIES } from "./query_schema.ts";

export type Resource = keyof typeof QUERIES;

export const ParameterError = z.object({
  parameter: z.string().describe("Its name"),
  detail: z.string().describe("What was seen, and what it must be"),
}).meta({ id: "ParameterError", description: "One bad parameter of the query string" });

export type ParameterError = z.infer<typeof ParameterError>;

export const MAX_UNKNOWN = 20;
/** A longer query string is refused unparsed. The longest valid part is a cursor, of up to 12,000. */
export const MAX_LENGTH = 12_288;

export interface ParseQueryOptions {
  resource?: Resource;
  /** The id in the path of an entry, a parameter like the others. */
  id?: string | undefined;
  /** The catalogue, which only the database knows. Without it, every well-formed action passes. */
  actions?: string[] | undefined;
}

/** Checks a query string. Anything unknown, repeated or out of range is an error, never ignored: all are returned. */
export function parseQuery(
  text: string,
  { resource = "entries", id, actions }: ParseQueryOptions = {},
) {
  if (text.length > MAX_LENGTH) {
    const detail = `${text.length} characters: must be at most ${MAX_LENGTH}`;
    return { errors: [{ parameter: "(query string)", detail }] };
  }
  // URLSearchParams drops one leading question mark. It gets one to drop, so that a parameter "?start" keeps its own.
  const parameters = new URLSearchParams(`?${text}`);
  if (id !== undefined) parameters.append("id", id);
  const given = Map.groupBy(parameters, ([name]) => name);
  const values = Object.fromEntries(
    Array.from(given, ([name, pairs]) => [name, pairs.length === 1 ? pairs[0]?.[1] : pairs]),
  );
  const schema = resource === "entries" && actions ? entriesQueryOf(actions) : QUERIES[resource];
  const { data, error } = schema.safeParse(values);

  const errors = new Map<string, string>();
  for (const issue of error?.issues ?? []) {
    if (issue.code === "unrecognized_keys") {
      const names = Object.keys(schema.shape).join(", ");
      for (const name of issue.keys.slice(0, MAX_UNKNOWN)) {
        const detail = names ? `must be one of: ${names}` : "there are none here";
        errors.set(redacted(name), `unknown parameter: ${detail}`);
      }
    } else {
      const name = String(issue.path[0]);
      const values = given.get(name)?.map(([, value]) => value) ?? [];
      // In a list, issue.path[1] is the place of the wrong code. Other issues have no second part.
      const code = values[0]?.split(",")[Number(issue.path[1])];
      const value = seen(code === undefined ? values : [code]);
      if (!errors.has(name)) errors.set(name, `${value}: ${issue.message}`);
    }
  }
  for (const [name, value] of parameters) {
    // Otherwise a client that encodes as Latin-1 would take what it gets for an empty log.
    if (value.includes("\ufffd") && !/%ef%bf%bd/i.test(text) && !errors.has(name)) {
      errors.set(redacted(name), `${seen([value])}: must be percent-encoded as UTF-8`);
    }
  }
  if (data && errors.size === 0) {
    return { query: { ...EVERYTHING, ...resource === "entry" && { limit: 1 }, ...data } };
  }
  return { errors: Array.from(errors, ([parameter, detail]) => ({ parameter, detail })) };
}

export function seen(given: string[]): string {
  if (given.length === 0) return "missing";
  if (given.length > 1) return `given ${given.length} times`;
  return JSON.stringify(redacted(given[0] ?? ""));
}

/** Shortens what a caller sent, and leaves out tokens: people paste errors into tickets and chats. */
function redacted(text: string): string {
  text = text.replace(/pck_\w+/g, "pck_…");
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
}
