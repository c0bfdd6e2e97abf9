import { z } from "zod";

const DAY = "must be a real day, YYYY-MM-DD, of the years 0001 to 9999";

// zod accepts the year 0000, Postgres does not.
const day = z.iso.date(DAY).refine((value) => value >= "0001-01-01", DAY);

function wholeNumber(minimum: number, maximum: number) {
  const error = `must be a whole number from ${minimum} to ${maximum}`;
  return z.string(error).regex(/^\d+$/, error).transform(Number).pipe(
    z.int(error).min(minimum, error).max(maximum, error),
  );
}

/** At most this many values are listed in an error. */
const MAX_LISTED = 100;

function oneOf<const Values extends readonly string[]>(values: Values) {
  const list = values.slice(0, MAX_LISTED).join(", ") + (values.length > MAX_LISTED ? ", …" : "");
  return z.enum(values, `must be one of: ${list}`);
}

/** The actions of a new installation. */
export const ACTIONS = [
  "agent_added",
  "conversation_created",
  "message_created",
  "feedback_given",
] as const;

const EMAIL = "must be 1 to 320 characters: the address as entries have it";

/** A token that somebody pastes into a filter must not get into the database's log of statements. */
const hasNoToken = (value: string) => !/pck_\w{30}/.test(value);

const AFTER = "must be beginning, or the cursor of an answer";

const range = {
  start: day.describe("The first day, in UTC; a real day of the years 0001 to 9999"),
  end: day.describe("The last day, in UTC, inclusive; not before `start`"),
};

function isInOrder({ start, end }: Partial<Record<"start" | "end", string | undefined>>): boolean {
  return !start || !end || start <= end;
}

/** A rule about several parameters, which is told as an error of the first. */
function rule(error: string, ...names: [string, ...string[]]) {
  return {
    path: [names[0]],
    error,
    // Checked beside other errors too, so that a caller learns of all of them at once.
    when: ({ issues }: z.core.ParsePayload) =>
      !issues.some(({ path }) => names.includes(String(path?.[0]))),
  };
}

const IN_ORDER = rule("must not be before start", "end", "start");

/** Why the defaults may be given with `after`: generated clients send them. */
const BESIDE_AFTER = "if it is given with after: the cursor has the place and the order";

const REQUIRED = `${DAY}. Only with after, it may be left out`;

/** The query string of a request for entries, checked and with its defaults. */
export const EntriesQuery = z.strictObject({
  start: range.start.describe(`${range.start.description}. Required without \`after\``).optional(),
  end: range.end.describe(`${range.end.description}. Required without \`after\``).optional(),
  action: z.string().regex(/^[A-Za-z0-9][\w.:-]{0,62}$/).refine(hasNoToken)
    .meta({ examples: ACTIONS })
    .describe("Only entries with this action: a code of `/actions`").optional(),
  // deno-lint-ignore no-control-regex
  user_email: z.string(EMAIL).regex(/^[^\x00]{1,320}$/u, EMAIL).refine(hasNoToken, EMAIL)
    .describe("Only entries of this person: the address exactly as entries have it").optional(),
  limit: wholeNumber(1, 1000).describe("The most entries in a page").default(100),
  offset: wholeNumber(0, Number.MAX_SAFE_INTEGER)
    .describe("How many matching entries to skip").default(0),
  after: z.string(AFTER).regex(/^[\w-]+$/, AFTER)
    .describe(
      "`beginning`, or the `cursor` of your last answer. The page has the entries committed since, and " +
        "`has_more` says whether there are more",
    ).optional(),
  order: oneOf(["asc", "desc"])
    .describe("By `created_at`, then `id`: oldest first, or `desc`, newest first").default("asc"),
})
  .refine(isInOrder, IN_ORDER)
  .refine(({ after, start }) => after ?? start, rule(REQUIRED, "start", "after"))
  .refine(({ after, end }) => after ?? end, rule(REQUIRED, "end", "after"))
  .refine(
    ({ after, offset }) => !after || offset === 0,
    rule(`must be 0 ${BESIDE_AFTER}`, "offset", "after"),
  )
  .refine(
    ({ after, order }) => !after || order === "asc",
    rule(`must be asc ${BESIDE_AFTER}`, "order", "after"),
  );

/** The same query, which may only ask for these actions. */
export function entriesQueryOf(actions: string[]) {
  return EntriesQuery.safeExtend({ action: oneOf(actions).optional() });
}

/** The query string of a request for the actions. */
export const ActionsQuery = z.strictObject({});

/** The query string of a request for seals. */
export const SealsQuery = z.strictObject({
  ...range,
  limit: wholeNumber(1, 1000).describe("The most seals in a page").default(100),
  offset: wholeNumber(0, Number.MAX_SAFE_INTEGER)
    .describe("How many matching seals to skip").default(0),
}).refine(isInOrder, IN_ORDER);

/** A valid query, with its defaults. */
export type Query = z.infer<typeof SealsQuery> & Partial<z.infer<typeof EntriesQuery>>;

/** What a query without parameters asks for. */
export const EVERYTHING: Query = { start: "0001-01-01", end: "9999-12-31", limit: 1000, offset: 0 };
