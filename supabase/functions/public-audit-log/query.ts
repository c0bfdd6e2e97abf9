import { z } from "zod";
import { Constants } from "./database.types.ts";

const DAY = "must be a real day, YYYY-MM-DD, of the years 0001 to 9999";

// Year 0000 is a date to zod and not to Postgres.
const day = z.iso.date(DAY).refine((value) => value >= "0001-01-01", DAY);

function wholeNumber(minimum: number, maximum: number) {
  const error = `must be a whole number from ${minimum} to ${maximum}`;
  return z.string(error).regex(/^\d+$/, error).transform(Number).pipe(
    z.int(error).min(minimum, error).max(maximum, error),
  );
}

function oneOf<const Values extends readonly string[]>(values: Values) {
  return z.enum(values, `must be one of: ${values.join(", ")}`);
}

const AFTER = "must be beginning, or as in the next of a Link header";

const range = {
  start: day.describe("The first day, in UTC; a real day of the years 0001 to 9999"),
  end: day.describe("The last day, in UTC, inclusive; not before `start`"),
};

function isInOrder({ start, end }: { start: string; end: string }): boolean {
  return start <= end;
}

const NOT_IN_ORDER = {
  path: ["end"],
  error: "must not be before start",
  // Also beside other mistakes: a caller should learn of all of them at once.
  when: ({ issues }: z.core.ParsePayload) =>
    !issues.some(({ path }) => path?.[0] === "start" || path?.[0] === "end"),
};

/** The query string of a request for entries, checked and with its defaults. */
export const EntriesQuery = z.strictObject({
  ...range,
  action: oneOf(Constants.public.Enums.audit_action)
    .describe("Only entries with this action").optional(),
  limit: wholeNumber(1, 1000).describe("How many entries a page has at the most").default(100),
  offset: wholeNumber(0, Number.MAX_SAFE_INTEGER)
    .describe("How many of the matching entries come before the page's first").default(0),
  after: z.string(AFTER).regex(/^[\w-]+$/, AFTER)
    .describe(
      "What the caller has seen: `beginning`, then as the `next` of each answer's `Link` says. The " +
        "answer has the entries that are new since, late ones too; fewer than `limit` are all there are",
    ).optional(),
  order: oneOf(["asc", "desc"])
    .describe("By `created_at`, then `id`: oldest first, or `desc`, newest first").default("asc"),
}).refine(isInOrder, NOT_IN_ORDER);

/** The query string of a request for seals. */
export const SealsQuery = z.strictObject({
  ...range,
  limit: wholeNumber(1, 1000).describe("How many seals a page has at the most").default(100),
  offset: wholeNumber(0, Number.MAX_SAFE_INTEGER)
    .describe("How many of the matching seals come before the page's first").default(0),
}).refine(isInOrder, NOT_IN_ORDER);

/** What is asked for, of entries or of seals. */
export type Query = z.infer<typeof SealsQuery> & Partial<z.infer<typeof EntriesQuery>>;

/** One bad parameter: what was seen, and what it must be. */
export const ParameterError = z.object({
  parameter: z.string().describe("Its name"),
  detail: z.string().describe("What was seen, and what it must be"),
}).meta({ id: "ParameterError", description: "One bad parameter of the query string" });

export type ParameterError = z.infer<typeof ParameterError>;

/** The query, or what is wrong with every bad parameter. */
export type QueryResult =
  | { query: Query; errors?: never }
  | { query?: never; errors: ParameterError[] };

/** As many unknown parameters are named; a query string could hold thousands. */
export const MAX_UNKNOWN = 20;

/** A longer query string is not parsed: there is none that is valid and needs it. */
export const MAX_LENGTH = 8192;

/**
 * Checks a query string, without its question mark. Anything unknown, repeated or out of range is an
 * error, never ignored.
 */
export function parseQuery(
  text: string,
  schema: typeof EntriesQuery | typeof SealsQuery = EntriesQuery,
): QueryResult {
  if (text.length > MAX_LENGTH) {
    const detail = `${text.length} characters: must be at most ${MAX_LENGTH}`;
    return { errors: [{ parameter: "(query string)", detail }] };
  }
  const given = Map.groupBy(new URLSearchParams(text), ([name]) => name);
  const values = Object.fromEntries(
    Array.from(given, ([name, pairs]) => [name, pairs.length === 1 ? pairs[0]?.[1] : pairs]),
  );
  const { data, error } = schema.safeParse(values);

  const errors = new Map<string, string>();
  for (const issue of error?.issues ?? []) {
    if (issue.code === "unrecognized_keys") {
      const names = Object.keys(schema.shape).join(", ");
      for (const name of issue.keys.slice(0, MAX_UNKNOWN)) {
        errors.set(shortened(name), `unknown parameter: must be one of: ${names}`);
      }
    } else {
      const name = String(issue.path[0]);
      const value = seen(given.get(name)?.map(([, value]) => value) ?? []);
      if (!errors.has(name)) errors.set(name, `${value}: ${issue.message}`);
    }
  }
  if (schema === EntriesQuery && given.has("after")) {
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

/** What is wrong with an `after` that the database does not take. */
export function wrongCursor(after: string): ParameterError {
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
  return JSON.stringify(shortened(given[0] ?? ""));
}

/** What is shown of a caller's own words. A token in the wrong place is not: errors are passed around. */
function shortened(text: string): string {
  text = text.replace(/pck_\w+/g, "pck_…");
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
}
