import addFormats from "npm:ajv-formats@3.0.1";
import { Ajv2020 } from "npm:ajv@8.20.0/dist/2020.js";
import { assert } from "@std/assert";
import document from "../../docs/openapi.json" with { type: "json" };
import { NDJSON } from "../../supabase/functions/public-audit-log/headers.ts";

const ajv = new Ajv2020({ strict: true });
addFormats.default(ajv);
// Ajv takes the whole document for one schema, and must know its keywords.
ajv.addVocabulary(Object.keys(document));
/** What `data` has for `message_created`: in words in the contract, because generators fail on conditions. */
export const MESSAGE_FIELDS = ["message_id", "conversation_id", "agent_id", "platform_agent_sid"];

const contract = structuredClone(document);
Object.assign(contract.components.schemas.AuditEntry, {
  if: { type: "object", properties: { action: { const: "message_created" } } },
  then: {
    properties: {
      data: {
        type: "object",
        required: MESSAGE_FIELDS,
        properties: Object.fromEntries(MESSAGE_FIELDS.map((name) => [name, { type: "string" }])),
      },
    },
  },
});
ajv.addSchema({ $id: "contract", ...contract }, undefined, undefined, false);

const PATHS: Record<string, { get: { responses: typeof RESPONSES } }> = document.paths;
const RESPONSES: Record<string, DocumentedResponse> =
  document.paths["/public-audit-log"].get.responses;

const HEADERS: Record<string, { description: string; required?: boolean }> =
  document.components.headers;

interface DocumentedResponse {
  headers: Record<string, { $ref: string }>;
  content: Record<string, { schema: { $ref: string }; example: object }>;
}

/** The schema of a line of NDJSON, which the contract describes in words. */
const ENTRY = "#/components/schemas/AuditEntry";

export function exampleOf(status: number): object {
  return Object.values(RESPONSES[status]?.content ?? {})[0]?.example ?? {};
}

/** Fails unless an answer has a status, media type, headers and body of docs/openapi.json. The caller may still read it. */
export async function assertDocumented(response: Response): Promise<void> {
  const wrongs = await differences(response.clone());
  assert(wrongs.length === 0, `not as in docs/openapi.json: ${wrongs.join("; ")}`);
}

async function differences({ url, status, headers, body }: Response): Promise<string[]> {
  const text = await new Response(body).text();
  // An answer that no server gave has no address.
  const path = url.replace(/^[^?]*(?=\/public)|\/?(\?.*)?$/g, "")
    .replace(/(?<=entries\/)[^/]+$/, "{id}");
  const documented = (PATHS[path]?.get.responses ?? RESPONSES)[status];
  if (!documented) return [`status ${status}: ${text}`];
  const type = headers.get("Content-Type") ?? "";
  const reference = type === NDJSON && documented === RESPONSES[200]
    ? ENTRY
    : documented.content[type]?.schema.$ref;
  if (!reference) return [`Content-Type ${type} of a ${status}`];
  const ofHeaders = Object.entries(documented.headers).flatMap(([name, { $ref }]) => {
    const value = headers.get(name);
    if (value === null && !HEADERS[name]?.required) return [];
    // Digits are a number, as in its schema.
    return schemaErrors(`${$ref}/schema`, /^\d+$/.test(value ?? "") ? Number(value) : value, name);
  });
  const bodies = type.endsWith("ndjson") ? text.split("\n").slice(0, -1) : [text];
  const what = `the body of a ${status}`;
  return [...ofHeaders, ...bodies.flatMap((b) => schemaErrors(reference, JSON.parse(b), what))];
}

/** Compares a value with a schema of the contract. Returns what is wrong. */
export function schemaErrors(reference: string, value: unknown, what: string): string[] {
  const validate = ajv.getSchema(`contract${reference}`);
  if (!validate) throw new Error(`no schema at ${reference}`);
  return validate(value) ? [] : [`${what}: ${ajv.errorsText(validate.errors)}`];
}
