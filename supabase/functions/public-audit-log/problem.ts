import * as z from "zod";
import { MAX_UNKNOWN, ParameterError, seen } from "./parse_query.ts";
import { type Query, SEARCHING } from "./query_schema.ts";

/** What can go wrong, by the code that clients may rely on. */
const PROBLEMS = {
  invalid_parameters: [400, "Bad Request", "The query string is invalid."],
  unauthorized: [401, "Unauthorized", "A valid API key is required: Authorization: Bearer pck_…"],
  not_found: [
    404,
    "Not Found",
    "There is nothing here. The audit log is at /functions/v1/public-audit-log.",
  ],
  entry_not_found: [404, "Not Found", "The log has no entry with this id and created_at."],
  method_not_allowed: [405, "Method Not Allowed", "Only GET is supported."],
  rate_limited: [
    429,
    "Too Many Requests",
    "This API key has used up its quota (RateLimit-Policy). Wait as many seconds as Retry-After says.",
  ],
  internal_error: [
    500,
    "Internal Server Error",
    "Something failed on our side. Try again; if it persists, report the request_id.",
  ],
} as const;

export type ProblemCode = keyof typeof PROBLEMS;
const CODES = Object.keys(PROBLEMS).join(", ");

/** The body of an error (RFC 9457). */
export const Problem = z.object({
  type: z.string().describe("`about:blank`, or the address of a page about this `code`"),
  title: z.string().describe("The status in words"),
  status: z.int().min(400).max(599).describe("The status of the answer"),
  detail: z.string().describe("What is wrong and what to do, for a person"),
  code: z.string().describe(
    `What is wrong, for a program: ${CODES}. More may be added: if you do not know a code, go by ` +
      "the status",
  ),
  request_id: z.uuid().describe("What to quote when reporting it; also in `X-Request-Id`"),
  errors: z.array(ParameterError).describe(
    `With 400: every bad parameter; of unknown ones, the first ${MAX_UNKNOWN}`,
  ).optional(),
}).meta({ id: "Problem", description: "What went wrong (RFC 9457)" });

export type Problem = z.infer<typeof Problem>;

export type ProblemContext = { requestId: string; consoleUrl?: string | undefined };

export function problemBody(
  code: ProblemCode,
  { requestId, consoleUrl }: ProblemContext,
  errors?: ParameterError[],
): Problem {
  const [status, title, detail] = PROBLEMS[code];
  return {
    // The page of the console's build that is made from docs/api.md, with an anchor for each code.
    type: consoleUrl ? `${consoleUrl}docs/api.html#${code}` : "about:blank",
    title,
    status,
    detail,
    code,
    request_id: requestId,
    ...errors && { errors },
  };
}

/** Answers with `application/problem+json` (RFC 9457), and with links to the pages and the contract (RFC 8631). */
export function problem(
  code: ProblemCode,
  context: ProblemContext,
  { headers = {}, errors }: { headers?: HeadersInit; errors?: ParameterError[] } = {},
): Response {
  const body = problemBody(code, context, errors);
  const response = new Response(JSON.stringify(body), { status: body.status, headers });
  response.headers.set("Content-Type", "application/problem+json");
  const { consoleUrl } = context;
  if (consoleUrl) {
    const contract = `<${consoleUrl}openapi.json>; rel="service-desc"`;
    response.headers.set("Link", `<${consoleUrl}docs/api.html>; rel="service-doc", ${contract}`);
  }
  return response;
}

/** The bad parameter that a decision of the database is about; `undefined` if the query has none. */
export function errorsOf(decision: string, query: Partial<Query> = {}) {
  const searching = query.after ? undefined : SEARCHING.find((name) => query[name] !== undefined);
  const parameter = decision === "invalid_cursor" ? "after" : searching ?? "user_email";
  const value = query[parameter];
  if (!value || !["invalid_cursor", "too_many"].includes(decision)) return undefined;
  const detail = {
    after:
      "not a cursor of this organization for the same times and filters, or one from before a " +
      "restore of the database. Start again with after=beginning, and drop the entries that you have, " +
      "by id and created_at",
    object:
      "too many entries to look through: at most 25,000 may match the other parameters. Ask for a " +
      "shorter time, or follow the log with after=beginning",
    user_email:
      "more than 1,000,000 entries in this time, too many to count. Ask for a shorter time",
  }[parameter];
  return [{ parameter, detail: `${seen([value])}: ${detail}` }];
}
