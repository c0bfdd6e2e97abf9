// Needs nothing.

import { assertEquals, assertMatch } from "@std/assert";
import { it } from "@std/testing/bdd";
import { existsSync } from "node:fs";
import document from "../../docs/openapi.json" with { type: "json" };
import { MESSAGE_FIELDS, schemaErrors } from "../helpers/contract.ts";

const RELEASES = new URL("../../docs/releases/", import.meta.url);
const { properties: FIELDS, required: REQUIRED } = document.components.schemas.AuditEntry;

/** No generated client reads these. */
const PROSE = ["info", "description", "summary", "example", "examples"];

/** With each of these, some generator stops, or makes a class without fields. */
const REFUSED = ["anyOf", "oneOf", "allOf", "not", "const", "if", "examples"];

type Answer = { content: Record<string, { schema: { $ref: string }; example?: unknown }> };

/** Lists the places of refused words, and of a `type` that is a list. */
function refused(part: unknown, place = ""): string[] {
  if (typeof part !== "object" || part === null || place.endsWith("/example")) return [];
  return Object.entries(part).flatMap(([name, value]) =>
    REFUSED.includes(name) || name === "type" && Array.isArray(value)
      ? [`${place}/${name}`]
      : refused(value, `${place}/${name}`)
  );
}

/** Lists the places of what can break a client: anything but new answers, fields and optional parameters. */
function breakingChanges(older: unknown, newer: unknown, place = ""): string[] {
  const key = place.split("/").at(-1) ?? "";
  const isParameter = place.includes("/parameters/");
  if (typeof older !== "object" || typeof newer !== "object" || !older || !newer) {
    const isKept = older === newer || isParameter && key === "required" && newer === false;
    return isKept ? [] : [place];
  }
  if (Array.isArray(older) && Array.isArray(newer)) {
    if (key === "parameters") return breakingChanges(byName(older), byName(newer), `${place}/`);
    if (older.every((value) => typeof value === "string")) {
      // A parameter may take more values. An answer may not have more, because generated clients check them.
      const mayGrow = key === "required" || key === "enum" && isParameter;
      const isKept = older.every((value) => newer.includes(value));
      return isKept && (mayGrow || older.length === newer.length) ? [] : [place];
    }
  }
  const now = new Map(Object.entries(newer));
  const kept = Object.entries(older)
    .filter(([name]) => ["properties", "headers"].includes(key) || !PROSE.includes(name));
  const added = [...now.keys()].filter((name) => !(name in older))
    .filter((name) => isParameter && (key === "schema" || now.get(name)?.required));
  return [
    ...kept.flatMap(([name, part]) => breakingChanges(part, now.get(name), `${place}/${name}`)),
    ...added.map((name) => `${place}/${name}`),
  ];
}

function byName(parameters: { name: string }[]): object {
  return Object.fromEntries(parameters.map((parameter) => [parameter.name, parameter]));
}

it("the contract changes only by additions since the last release", async () => {
  if (!existsSync(RELEASES)) return;
  const releases = Array.from(Deno.readDirSync(RELEASES), ({ name }) => name)
    .filter((name) => name.endsWith(".json"))
    .sort(new Intl.Collator("en", { numeric: true }).compare);
  const last = await Deno.readTextFile(new URL(releases.at(-1) ?? "", RELEASES));
  assertEquals(breakingChanges(JSON.parse(last), document), []);
});

// What generators of clients need. docs/integrating.md lists those that were tried.
it("the contract, for generators of clients, is OpenAPI 3.0, with plain schemas: no alternatives, conditions or lists of types. An entry has all fields, and any object as data", () => {
  assertMatch(document.openapi, /^3\.0\.\d$/);
  assertEquals(refused(document), []);
  // As date-times, clients would send +0000 or nanoseconds.
  const times = document.paths["/public-audit-log"].get.parameters
    .filter(({ name }) => ["since", "until"].includes(name));
  assertEquals(times.map(({ schema }) => schema), [{ type: "string" }, { type: "string" }]);
  assertEquals(REQUIRED, Object.keys(FIELDS));
  assertEquals([FIELDS.id.format, FIELDS.created_at.format], ["uuid", "date-time"]);
  assertEquals([FIELDS.data.type, FIELDS.data.additionalProperties], ["object", {}]);
});

it("the contract, for generators of clients, has one media type for each answer, and an example that is as its schema says. In words, it says what data has for message_created", () => {
  const words = MESSAGE_FIELDS.map((name) => `\`${name}\``);
  assertEquals(words.filter((word) => !FIELDS.data.description.includes(word)), []);
  for (const { get: { operationId, responses } } of Object.values(document.paths)) {
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
