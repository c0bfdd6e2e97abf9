import openapiTypescript, { astToString } from "npm:openapi-typescript@7.13.0";
import { z } from "zod";
import metadata from "../../deno.json" with { type: "json" };
import { formatted, writeOrCheck } from "./generated.ts";
import { ANSWER_EXAMPLES, PARAMETER_EXAMPLES } from "./openapi_examples.ts";
// For its schemas, which register themselves by their ids: importing the type alone would not run it.
import "../../supabase/functions/public-audit-log/page_schema.ts";
import { COMMON_HEADERS } from "../../supabase/functions/public-audit-log/headers.ts";
import type { ParameterError } from "../../supabase/functions/public-audit-log/parse_query.ts";
import { problemBody } from "../../supabase/functions/public-audit-log/problem.ts";
import type { ProblemCode } from "../../supabase/functions/public-audit-log/problem.ts";
import {
  EntriesQuery,
  EntryQuery,
} from "../../supabase/functions/public-audit-log/query_schema.ts";
import { SealsQuery } from "../../supabase/functions/public-audit-log/query_schema.ts";

const PAGE_URL = "https://project-ref.supabase.co/functions/v1/public-audit-log";

/** What `quota()` returns. */
const QUOTA = Number(
  (await Deno.readTextFile("supabase/schemas/4_api/01_keys.sql"))
    .match(/function audit_log_private\.quota\(\)[^;]*?return (\d+);/)?.[1],
);

const TEXT = { type: "string" };
const REQUEST_ID = "2f1f7c9e-8f0e-4a53-9d0b-3c9a4a7f1e52";

/** How zod writes its schemas: without patterns that a format implies, and so that answers may gain fields later. */
const OPENAPI = {
  target: "openapi-3.0",
  override({ jsonSchema }: { jsonSchema: z.core.JSONSchema.BaseSchema }) {
    // Some generated clients compare the pattern of a time with what they have parsed.
    if (["date", "date-time", "uuid"].includes(jsonSchema.format ?? "")) delete jsonSchema.pattern;
    if (jsonSchema.additionalProperties === false) delete jsonSchema.additionalProperties;
  },
} as const;

const HEADERS = {
  "Cache-Control": header(
    "Answers must not be stored: they are for the holder of the key only",
    COMMON_HEADERS["Cache-Control"],
  ),
  "Vary": header(
    "The answer depends on the key and on the requested media type",
    COMMON_HEADERS["Vary"],
  ),
  "X-Content-Type-Options": header(
    "Clients must not guess another type than `Content-Type`",
    COMMON_HEADERS["X-Content-Type-Options"],
  ),
  "X-Request-Id": header(
    "Identifies this request: quote it when you report a problem",
    REQUEST_ID,
    { type: "string", format: "uuid" },
  ),
  "RateLimit-Policy": header(
    `The rate limit (draft-ietf-httpapi-ratelimit-headers-10): ${QUOTA} requests in any 60 seconds`,
    `"default";q=${QUOTA};w=60`,
    { ...TEXT, pattern: '^"default";q=\\d+;w=\\d+$' },
  ),
  "RateLimit": header(
    "`r` requests are left now. In `t` seconds, the oldest counted request leaves the window and one " +
      "more is possible (draft-ietf-httpapi-ratelimit-headers-10)",
    `"default";r=${QUOTA - 1};t=60`,
    { type: "string", pattern: '^"default";r=\\d+;t=\\d+$' },
  ),
  "Retry-After": header(
    "Seconds until the next request will be accepted (RFC 9110)",
    60,
    { type: "integer", minimum: 1 },
  ),
  "Link": optional(
    "Absolute addresses of the `first`, `prev`, `next` and `last` page (RFC 8288). The last page has no " +
      "`next`. If they have more than 8,000 characters, there is only `next`, or on the last page `first`. " +
      "With `after`, there is only `next`, and only while `has_more` is true",
    `<${PAGE_URL}?start=2026-11-01&end=2026-11-20&limit=100&offset=0>; rel="first", ` +
      `<${PAGE_URL}?start=2026-11-01&end=2026-11-20&limit=100&offset=0>; rel="last"`,
  ),
  "DocumentationLink": optional(
    "Where the operator has set them: the pages about the API (`service-doc`) and this " +
      "contract (`service-desc`), as in RFC 8631",
    '<https://console.example.com/docs/api.html>; rel="service-doc", ' +
      '<https://console.example.com/openapi.json>; rel="service-desc"',
  ),
  "X-Cursor": optional("Only with `after`: the same as `cursor`, for readers of NDJSON"),
  "X-Has-More": optional(
    "Only with `after`: the same as `has_more`, for readers of NDJSON",
    "false",
    { ...TEXT, enum: ["true", "false"] },
  ),
  "X-Total-Count": header("The same number as `total`", 1, { type: "integer", minimum: 0 }),
  "WWW-Authenticate": header(
    "Contains `error` only if a token was sent (RFC 6750 section 3)",
    'Bearer realm="public-audit-log", error="invalid_token"',
    { type: "string", pattern: '^Bearer realm="public-audit-log"(, error="invalid_token")?$' },
  ),
  "Allow": header("The only method that is supported (RFC 9110)", "GET"),
};

type HeaderName = keyof typeof HEADERS;

const COMMON: HeaderName[] = ["Cache-Control", "Vary", "X-Content-Type-Options", "X-Request-Id"];
const LIMIT: HeaderName[] = ["RateLimit-Policy", "RateLimit"];

const DOCUMENT = {
  // Not 3.1: several generators make `Object` of each field, or stop.
  openapi: "3.0.4",
  info: {
    title: "Public Audit Log",
    version: metadata.version,
    license: { name: metadata.license, url: "https://opensource.org/license/mit" },
    description: `Each API key belongs to one organization and reads the audit log of that
organization only.

**Pages.** Entries come oldest first, so offsets stay stable while new entries are appended. \`total\` is
the exact number of matching entries. The last page costs about as much as the first.

**Following the log.** Ask once with \`after=beginning\`. From then on, ask with the \`cursor\` of the last
answer as \`after\`. You get every entry exactly once, as soon as it is committed, even if that is
late. When \`has_more\` is false, you have caught up: ask again a second or a day later. While it
is true, ask at once, with the cursor or for the address in \`next\`: a page does a bounded amount of work,
so it may be short or empty before you have caught up.

**NDJSON.** With \`Accept: application/x-ndjson\`, the answer has one entry on each line and nothing else;
\`total\` is in the header \`X-Total-Count\`. All pages of a day, one after another, are the file that the
day's seal hashes: see \`/public-audit-log/seals\`.

**Rate limit.** Each key may make ${QUOTA} requests in any 60 seconds, unless \`RateLimit-Policy\` says another
number. The header \`RateLimit\` says how many are left. After a 429, wait for as many seconds as \`Retry-After\` says.

**Changes.** New fields, headers, optional parameters, statuses and error codes may appear within
version 1, so ignore what you do not know. Only an entry gains no field, and its fields keep their order
and spacing, because seals are hashes of it. Nothing that is described here will be removed or change
its meaning.`,
  },
  servers: [
    {
      url: "https://{project}.supabase.co/functions/v1",
      description: "A hosted project",
      variables: { project: { default: "project-ref", description: "The project's reference" } },
    },
    { url: "http://127.0.0.1:54321/functions/v1", description: "deno task start" },
  ],
  security: [{ apiKey: [] }],
  paths: {
    "/public-audit-log": operation("readAuditLog", EntriesQuery, {
      summary: "Read a page of the audit log",
      description:
        "Returns the entries of the key's organization from `start` to `end`, both inclusive, by UTC " +
        "day. An unknown or repeated parameter is an error. An `offset` beyond the last entry gives " +
        "an empty page with the true `total`. With `after`, the page has the entries that are new " +
        "since the given cursor, from all days unless `start` and `end` are given.",
      // NDJSON stands in the description only: for two media types, generators make types that nobody can use.
      answer:
        "A page of entries. If `Accept` prefers `application/x-ndjson`, the body is one `AuditEntry` a line, " +
        "each with the same bytes as in the JSON page, and empty if the page has no entries",
      schema: "Page",
      further: ["Link", "X-Total-Count", "X-Cursor", "X-Has-More"],
    }),
    "/public-audit-log/entries/{id}": operation("readEntry", EntryQuery, {
      summary: "Read one entry",
      description:
        "Returns the entry with this `id` and `created_at`, with the same bytes as in a page. " +
        "`created_at` leads to the entry; there is no index of the ids alone.",
      answer: "The entry",
      schema: "AuditEntry",
      problems: {
        404: problem("entry_not_found", "The organization has no such entry", LIMIT),
      },
    }),
    "/public-audit-log/actions": operation("readActions", z.object({}), {
      summary: "Read which actions there are",
      description: "Returns the actions that entries may have, in a stable order. New ones may " +
        "appear at any time; none disappears or changes its code while entries have it.",
      answer: "All actions",
      schema: "ActionsPage",
      further: ["X-Total-Count"],
    }),
    "/public-audit-log/seals": operation("readSeals", SealsQuery, {
      summary: "Read the seals of finished days",
      description:
        "Each night, the service seals every finished UTC day: it stores a hash of the day's entries, " +
        "chained to the previous seal. Keep a copy of one `seal` outside the service, and you can show " +
        "later whether the log was changed. `start` and `end` select by `day`. A day that received or " +
        "lost entries after it was sealed has several seals. To read the chain after sequence n, ask " +
        "for all days with `offset=n`. `docs/verifying.md` shows how to check an export.",
      answer: "A page of seals",
      schema: "SealsPage",
      further: ["Link", "X-Total-Count"],
    }),
  },
  components: {
    securitySchemes: {
      apiKey: {
        type: "http",
        scheme: "bearer",
        bearerFormat: "pck_…",
        description:
          "Send `Authorization: Bearer pck_…` (RFC 6750) with an API key that an administrator of " +
          "the organization has created in the admin console.",
      },
    },
    headers: HEADERS,
    schemas: schemas(),
  },
};

await writeOrCheck("openapi", {
  // What the function serves: in one line, so that it is small.
  "supabase/functions/public-audit-log/openapi.json": JSON.stringify(DOCUMENT),
  "docs/openapi.json": await formatted("json", JSON.stringify(DOCUMENT)),
  "docs/openapi.d.ts": await formatted(
    "ts",
    // The generator wants it as it would be read from a file.
    astToString(await openapiTypescript(JSON.stringify(DOCUMENT))),
  ),
});

interface Operation {
  summary: string;
  description: string;
  /** What the answer of a 200 is, with its schema, and the headers that only it has. */
  answer: string;
  schema: keyof typeof ANSWER_EXAMPLES;
  further?: HeaderName[];
  problems?: Record<number, ReturnType<typeof problem>>;
}

function operation(
  operationId: string,
  query: z.ZodType,
  { summary, description, answer, schema, further = [], problems = {} }: Operation,
) {
  const taken = parameters(query);
  const names = taken.map(({ name }) => name).join(", ");
  const error = taken.length > 0
    ? { parameter: "acton", detail: `unknown parameter: must be one of: ${names}` }
    : { parameter: "limit", detail: "unknown parameter: there are none here" };
  const content = {
    schema: { $ref: `#/components/schemas/${schema}` },
    example: ANSWER_EXAMPLES[schema],
  };
  const page = {
    description: answer,
    headers: headers([...COMMON, ...LIMIT, ...further]),
    content: { "application/json": content },
  };
  const responses = { 200: page, ...commonProblems(error), ...problems };
  return { get: { operationId, summary, description, parameters: taken, responses } };
}

function parameters(query: z.ZodType) {
  const { properties = {} } = z.toJSONSchema(query, OPENAPI);
  const input = z.toJSONSchema(query, { ...OPENAPI, io: "input" });
  const { required = [], properties: sent = {} } = input;
  return Object.entries(properties).map(([name, parsed]) => {
    // Clients send a list as one text, with commas.
    const property = typeof parsed === "object" && parsed.type === "array" ? sent[name] : parsed;
    if (typeof property !== "object") throw new TypeError(`${name} has no schema`);
    const { description, ...schema } = property;
    return {
      name,
      in: name === "id" ? "path" : "query",
      description,
      required: required.includes(name),
      schema,
      example: PARAMETER_EXAMPLES[name],
    };
  });
}

function schemas() {
  const uri = (id: string) => `#/components/schemas/${id}`;
  const { schemas } = z.toJSONSchema(z.globalRegistry, { ...OPENAPI, uri });
  for (const schema of Object.values(schemas)) delete schema.$id;
  return schemas;
}

function header(description: string, example: string | number, schema: object = TEXT) {
  return { description, required: true, schema, example };
}

function optional(description: string, example?: string, schema: object = TEXT) {
  return { description, schema, ...example && { example } };
}

function headers(names: HeaderName[]) {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

/** The errors that each path can answer with, and an example of a bad parameter. */
function commonProblems(error: ParameterError) {
  return {
    400: problem("invalid_parameters", "The query string is invalid", LIMIT, [error]),
    401: problem(
      "unauthorized",
      "The token is missing, malformed, unknown, expired or revoked; the answer is the same for all",
      ["WWW-Authenticate"],
    ),
    404: problem("not_found", "The path is below this one and does not exist", []),
    405: problem(
      "method_not_allowed",
      "The method is not GET; HEAD and OPTIONS are refused, too",
      ["Allow"],
    ),
    429: problem(
      "rate_limited",
      `${QUOTA} requests of the key were counted in the last 60 seconds; refused requests are not counted`,
      [...LIMIT, "Retry-After"],
    ),
    500: problem("internal_error", "Something failed in the service: try again", []),
  };
}

function problem(
  code: ProblemCode,
  description: string,
  further: HeaderName[],
  errors?: ParameterError[],
) {
  const $ref = "#/components/schemas/Problem";
  const example = problemBody(code, { requestId: REQUEST_ID }, errors);
  return {
    description,
    headers: {
      ...headers([...COMMON, ...further]),
      Link: { $ref: "#/components/headers/DocumentationLink" },
    },
    content: { "application/problem+json": { schema: { $ref }, example } },
  };
}
