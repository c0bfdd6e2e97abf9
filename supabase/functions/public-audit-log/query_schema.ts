import { z } from "zod";
import { Constants } from "./database.types.ts";

const DAY = "must be a real day, YYYY-MM-DD, of the years 0001 to 9999";

// zod accepts the year 0000, Postgres does not.
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

const AFTER = "must be beginning, or as in the next of an answer";

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
  // Checked beside other errors too, so that a caller learns of all of them at once.
  when: ({ issues }: z.core.ParsePayload) =>
    !issues.some(({ path }) => path?.[0] === "start" || path?.[0] === "end"),
};

/** The query string of a request for entries, checked and with its defaults. */
export const EntriesQuery = z.strictObject({
  ...range,
  action: oneOf(Constants.audit_log.Enums.audit_action)
    .describe("Only entries with this action").optional(),
  limit: wholeNumber(1, 1000).describe("The most entries in a page").default(100),
  offset: wholeNumber(0, Number.MAX_SAFE_INTEGER)
    .describe("How many matching entries to skip").default(0),
  after: z.string(AFTER).regex(/^[\w-]+$/, AFTER)
    .describe(
      "`beginning`, or the cursor in the `next` of the last answer. The page has the entries that " +
        "are new since, late ones too, and `has_more` says whether there are more",
    ).optional(),
  order: oneOf(["asc", "desc"])
    .describe("By `created_at`, then `id`: oldest first, or `desc`, newest first").default("asc"),
}).refine(isInOrder, NOT_IN_ORDER);

/** The query string of a request for seals. */
export const SealsQuery = z.strictObject({
  ...range,
  limit: wholeNumber(1, 1000).describe("The most seals in a page").default(100),
  offset: wholeNumber(0, Number.MAX_SAFE_INTEGER)
    .describe("How many matching seals to skip").default(0),
}).refine(isInOrder, NOT_IN_ORDER);

/** A valid query for entries or seals, with its defaults. */
export type Query = z.infer<typeof SealsQuery> & Partial<z.infer<typeof EntriesQuery>>;
