import addFormats from "npm:ajv-formats@3.0.1";
import { Ajv2020 } from "npm:ajv@8.20.0/dist/2020.js";
import { assert } from "@std/assert";
import document from "../docs/openapi.json" with { type: "json" };

const ajv = new Ajv2020({ strict: true });
addFormats.default(ajv);
// Ajv takes the whole document for one schema, and must know its keywords.
ajv.addVocabulary(Object.keys(document));
ajv.addSchema({ $id: "contract", ...document }, undefined, undefined, false);

const RESPONSES: Record<string, DocumentedResponse> =
  document.paths["/public-audit-log"].get.responses;

const OTHER_RESPONSES: Record<string, typeof RESPONSES> = {
  seals: document.paths["/public-audit-log/seals"].get.responses,
  actions: document.paths["/public-audit-log/actions"].get.responses,
};

const HEADERS: Record<string, { description: string; required?: boolean }> =
  document.components.headers;

interface DocumentedResponse {
  headers: Record<string, { $ref: string }>;
  content: Record<string, { schema: { $ref?: string; type?: string }; example?: object }>;
}

/** The schema of a line of NDJSON. */
const ENTRY = "#/components/schemas/AuditEntry";

export function exampleOf(status: number): object {
  return Object.values(RESPONSES[status]?.content ?? {})[0]?.example ?? {};
}

/**
 * Fails unless an answer has a status, media type, headers and body of docs/openapi.json. The caller may
 * still read it.
 */
export async function assertDocumented(response: Response): Promise<void> {
  const wrongs = await differences(response.clone());
  assert(wrongs.length === 0, `not as in docs/openapi.json: ${wrongs.join("; ")}`);
}

async function differences({ url, status, headers, body }: Response): Promise<string[]> {
  const text = await new Response(body).text();
  const [, other = ""] = url.match(/\/(seals|actions)\/?(?:\?|$)/) ?? [];
  const documented = (OTHER_RESPONSES[other] ?? RESPONSES)[status];
  if (!documented) return [`status ${status}: ${text}`];
  const type = headers.get("Content-Type") ?? "";
  const content = documented.content[type];
  if (!content) return [`Content-Type ${type} of a ${status}`];
  return [
    ...Object.entries(documented.headers).flatMap(([name, { $ref }]) =>
      !headers.has(name) && !HEADERS[name]?.required
        ? []
        : errors(`${$ref}/schema`, headerValue(headers.get(name)), name)
    ),
    ...bodiesOf(type, text).flatMap((body) =>
      errors(content.schema.$ref ?? ENTRY, body, `the body of a ${status}`)
    ),
  ];
}

/** Reads the JSON values of a body: one, or one for each line of NDJSON. */
function bodiesOf(type: string, text: string): unknown[] {
  if (!type.endsWith("ndjson")) return [JSON.parse(text)];
  return text.split("\n").slice(0, -1).map((line) => JSON.parse(line));
}

/** Reads a header's value: digits are a number, as in its schema. */
function headerValue(text: string | null): string | number | null {
  return text !== null && /^\d+$/.test(text) ? Number(text) : text;
}

function errors(reference: string, value: unknown, what: string): string[] {
  const validate = ajv.getSchema(`contract${reference}`);
  if (!validate) throw new Error(`no schema at ${reference}`);
  return validate(value) ? [] : [`${what}: ${ajv.errorsText(validate.errors)}`];
}
