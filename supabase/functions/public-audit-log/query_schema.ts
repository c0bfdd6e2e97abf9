import * as z from "zod";

const START = "The first day, in UTC; a real day of the years 0001 to 9999";
const END = "The last day, in UTC, inclusive; not before `start`";

const DAY = "must be a real day, YYYY-MM-DD, of the years 0001 to 9999";
const ACTION =
  "must be up to 20 codes of /actions joined by commas, as in action=agent_added,feedback_given";
const AFTER = "must be beginning, or the cursor of an answer";
const TIME =
  "must be a time with seconds, at most microseconds, and a zone: 2026-11-20T15:04:05Z, " +
  "or 2026-11-20T16:04:05+01:00 with %2B for the plus sign";

function day(error = DAY) {
  // zod accepts the year 0000, Postgres does not.
  return z.iso.date(error).refine((value) => value >= "0001-01-01", error);
}

const dateTime = z.iso.datetime({ offset: true });
const ZONED = /^.{16}:\d\d(\.\d{1,6})?(Z|[+-](0\d|1[0-4]):\d\d)$/;

/**
 * A time (RFC 3339). Postgres has no year 0000 and no fraction of a microsecond. Zones on earth end at +14:00, so a
 * larger offset is a typing error. In the contract it is any string, because generated clients send a date-time as
 * they like: with +0000, or nanoseconds.
 */
const time = z.string(TIME).refine(
  (value) => dateTime.safeParse(value).success && !value.startsWith("0000") && ZONED.test(value),
  TIME,
);

/** A text of this form. */
function text(form: RegExp, error: string) {
  return z.string(error).regex(form, error);
}

function wholeNumber(minimum: number, maximum: number) {
  const error = `must be a whole number from ${minimum} to ${maximum}`;
  return text(/^\d+$/, error).transform(Number)
    .pipe(z.int(error).min(minimum, error).max(maximum, error));
}

function oneOf<const Values extends readonly string[]>(values: Values) {
  const list = values.slice(0, 100).join(", ") + (values.length > 100 ? ", …" : "");
  return z.enum(values, `must be one of: ${list}`);
}

/** The filters for which entries are looked through (`searches` in `1_log/10_scan.sql`). */
export const SEARCHING = ["object"] as const;

/** A token that somebody pastes into a parameter must not get into the database's log of statements. */
const hasNoToken = (value: string) => !/pck_\w{30}/.test(value);

/** Postgres has no text with NUL. */
function filter(longest: number, error: string) {
  return text(new RegExp(`^[^\\x00]{1,${longest}}$`, "u"), error).refine(hasNoToken, error);
}

export const CODE = "[A-Za-z0-9][\\w.:-]{0,62}";

/** Codes joined by commas, each of which must be as `code` says. */
function listOf<Code extends z.ZodType<string, string>>(code: Code) {
  return z.array(code).max(20, "must be at most 20 codes")
    .refine((codes) => new Set(codes).size === codes.length, "must name each code once");
}

const split = (value: string) => value.split(",");

type Bound = "start" | "end" | "since" | "until";
type Bounds = Partial<Record<Bound | "after", string | undefined>>;

/** The instant of a bound, in microseconds since 1970. `end` is the midnight after its day. */
function instant(bound: Bound, value: string): bigint {
  const milliseconds = Date.parse(value) + (bound === "end" ? 24 * 60 * 60 * 1000 : 0);
  const [, microseconds = ""] = value.match(/\.\d{3}(\d+)/) ?? [];
  return BigInt(milliseconds) * 1000n + BigInt(microseconds.padEnd(3, "0"));
}

/** A rule that a bound is before another, which is told as an error of the second, unless another is `wrong`. */
function inOrder(first: Bound, second: Bound, error: string, wrong = second) {
  const isKept = ({ [first]: one, [second]: other }: Bounds) =>
    one === undefined || other === undefined || instant(first, one) < instant(second, other);
  return rule(isKept, error, wrong, first, second);
}

/** A rule that a day is given, or what can take its place. */
function required(day: "start" | "end") {
  const isKept = ({ [day]: given, since, until, after }: Bounds) =>
    given ?? since ?? until ?? after;
  const error = `${DAY}. Only with since, until or after, it may be left out`;
  return rule(isKept, error, day, "since", "until", "after");
}

/** A rule for beside `after`. The default is allowed, because generated clients send it. */
function besideAfter(name: "offset" | "order", only: unknown) {
  const isKept = ({ after, [name]: given }: Partial<Record<typeof name | "after", unknown>>) =>
    !after || given === only;
  const error = `must be ${only} if it is given with after: the cursor has the place and the order`;
  return rule(isKept, error, name, "after");
}

/** A rule about several parameters, which is told as an error of the first. */
function rule<Query>(isKept: (query: Query) => unknown, error: string, ...names: string[]) {
  // Checked beside other errors too, so that a caller learns of all of them at once.
  const when = ({ issues }: z.core.ParsePayload) =>
    !issues.some(({ path }) => names.includes(String(path?.[0])));
  return [isKept, { path: names.slice(0, 1), error, when }] as const;
}

/** The query string of a request for entries, checked and with its defaults. */
export const EntriesQuery = z.strictObject({
  start: day(`${DAY}; a time goes into since`)
    .describe(`${START}. Required without \`since\`, \`until\` and \`after\``).optional(),
  end: day(`${DAY}; a time goes into until`)
    .describe(`${END}. Required without \`since\`, \`until\` and \`after\``).optional(),
  since: time.describe(
    "Only entries from this time on: RFC 3339, with a zone, such as 2026-11-20T15:04:05Z",
  ).optional(),
  until: time.describe("Only entries before this time, written as in `since`").optional(),
  action: text(new RegExp(`^${CODE}(,${CODE}){0,19}$`), ACTION).transform(split)
    .pipe(listOf(z.string().refine(hasNoToken))).optional().describe(
      "Only entries with one of these actions: up to 20 codes of `/actions`, joined by commas",
    ),
  user_email: filter(320, "must be an address of 1 to 320 characters")
    .describe("Only entries of this person: the address, in upper or lower case").optional(),
  limit: wholeNumber(1, 1000).describe("At most this many entries in a page").default(100),
  offset: wholeNumber(0, Number.MAX_SAFE_INTEGER)
    .describe("How many matching entries to skip").default(0),
  // In a cursor, which is longer, the characters of a token may stand by chance.
  after: text(/^[\w-]+$/, AFTER).refine((after) => after.length > 100 || hasNoToken(after), AFTER)
    .optional().describe(
      "`beginning`, or the `cursor` of your last answer. The page has the entries committed since, and " +
        "`has_more` says whether there are more",
    ),
  order: oneOf(["asc", "desc"])
    .describe("By `created_at`, then `id`: oldest first, or `desc`, newest first").default("asc"),
  object: filter(1000, "must be a text of 1 to 1000 characters, as a value in data is").optional()
    .describe(
      "Only entries about this: those whose `data` has exactly this text as a value, at its top level. " +
        "Numbers are not compared",
    ),
})
  .refine(...inOrder("start", "end", "must not be before start"))
  .refine(...inOrder("since", "until", "must be after since"))
  .refine(...inOrder("start", "until", "must be after the beginning of start"))
  .refine(...inOrder("since", "end", "must be before the end of end", "since"))
  .refine(...required("start"))
  .refine(...required("end"))
  .refine(...besideAfter("offset", 0))
  .refine(...besideAfter("order", "asc"));

/** The same query, which may only ask for these actions. */
export function entriesQueryOf(actions: string[]) {
  return EntriesQuery.safeExtend({
    action: z.string(ACTION).transform(split).pipe(listOf(oneOf(actions))).optional(),
  });
}

/** What identifies one entry: `id` stands in the path, `created_at` in the query string. */
export const EntryQuery = z.strictObject({
  // Not z.uuid(), which knows some versions only: a platform may write any UUID.
  id: z.guid("must be the id of an entry, a UUID, in the path").describe("The entry's `id`"),
  created_at: time.describe(
    "The entry's `created_at`, as answers have it, or the same moment in another zone",
  ),
});

export const SealsQuery = z.strictObject({
  start: day().describe(START),
  end: day().describe(END),
  limit: wholeNumber(1, 1000).describe("At most this many seals in a page").default(100),
  offset: wholeNumber(0, Number.MAX_SAFE_INTEGER)
    .describe("How many matching seals to skip").default(0),
}).refine(...inOrder("start", "end", "must not be before start"));

export const QUERIES = {
  entries: EntriesQuery,
  entry: EntryQuery,
  seals: SealsQuery,
  actions: z.strictObject({}),
};

export type Query =
  & z.infer<typeof SealsQuery>
  & Omit<Partial<z.infer<typeof EntriesQuery>>, "start" | "end">
  & Partial<z.infer<typeof EntryQuery>>;

/** Fills in what a valid query left out: the days beside since, until or after; everything for /actions and an entry. */
export const EVERYTHING: Query = { start: "0001-01-01", end: "9999-12-31", limit: 1000, offset: 0 };
