// Needs nothing.

import { assertEquals, assertMatch } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import document from "../../docs/openapi.json" with { type: "json" };
import { MESSAGE_FIELDS, schemaErrors } from "../helpers/contract.ts";

// What generators of clients need. docs/integrating.md lists those that were tried.

const OPERATIONS = Object.values(document.paths).map(({ get }) => get);

const ENTRY = document.components.schemas.AuditEntry;

interface Answer {
  content: Record<string, { schema: { $ref: string }; example?: unknown }>;
}

/** With each of these, some generator stops, or makes a class without fields. */
const REFUSED = ["anyOf", "oneOf", "allOf", "not", "const", "if", "examples"];

/** Lists the places of refused words, and of a `type` that is a list. */
function refused(part: unknown, place = ""): string[] {
  if (typeof part !== "object" || part === null || place.endsWith("/example")) return [];
  return Object.entries(part).flatMap(([name, value]) =>
    REFUSED.includes(name) || name === "type" && Array.isArray(value)
      ? [`${place}/${name}`]
      : refused(value, `${place}/${name}`)
  );
}

describe("the contract, for generators of clients,", () => {
  it("is OpenAPI 3.0, with plain schemas: no alternatives, conditions or lists of types", () => {
    assertMatch(document.openapi, /^3\.0\.\d$/);
    assertEquals(refused(document), []);
  });

  it("has one class for an entry: six fields, all required, and data is any object", () => {
    const { properties, required } = ENTRY;
    const fields = ["id", "created_at", "action", "user_email", "agent_name", "data"];
    assertEquals([Object.keys(properties), required], [fields, fields]);
    assertEquals([properties.id.format, properties.created_at.format], ["uuid", "date-time"]);
    const { type, additionalProperties } = properties.data;
    assertEquals([type, additionalProperties], ["object", {}]);
  });

  it("has one media type for each answer, and an example that is as its schema says", () => {
    for (const { operationId, responses } of OPERATIONS) {
      for (const [status, { content }] of Object.entries<Answer>(responses)) {
        const what = `${status} of ${operationId}`;
        const bodies = Object.values(content);
        assertEquals(bodies.length, 1, what);
        for (const { schema, example } of bodies) {
          assertEquals(schemaErrors(schema.$ref, example, what), []);
        }
      }
    }
  });

  it("has an example for each parameter, because tools make up a value for those without one", () => {
    const missing = OPERATIONS.flatMap(({ operationId, parameters }) =>
      parameters.filter((parameter) => !("example" in parameter))
        .map(({ name }) => `${name} of ${operationId}`)
    );
    assertEquals(missing, []);
  });

  it("says in words and in an example what data has for message_created", () => {
    const { 200: page } = document.paths["/public-audit-log"].get.responses;
    const { items } = page.content["application/json"].example;
    const message = items.find(({ action }) => action === "message_created");
    assertEquals(Object.keys(message?.data ?? {}).sort(), MESSAGE_FIELDS.toSorted());
    const words = MESSAGE_FIELDS.map((name) => `\`${name}\``);
    assertEquals(words.filter((word) => !ENTRY.properties.data.description.includes(word)), []);
  });
});
