import { assertEquals, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import document from "../../docs/openapi.json" with { type: "json" };
import { redocly } from "../../docs/reference.ts";

const DOCS = fileURLToPath(new URL("../../docs/", import.meta.url));
const GET = "paths/~1public-audit-log/get";
const PAGE = "responses/200/content/application~1json/schema/properties";

const Side = z.object({ value: z.unknown().optional() }).optional();

const Report = z.object({
  changes: z.array(z.object({
    path: z.string(),
    typeName: z.string(),
    kind: z.string(),
    impact: z.string(),
    property: z.string().optional(),
    verdicts: z.array(z.object({ message: z.string() })),
    base: Side,
    revision: Side,
  })),
});

type Change = z.infer<typeof Report>["changes"][number];

/**
 * The changes of a document that can break a client, one line each: something that it may rely on
 * goes away, narrows or changes its meaning. An addition cannot.
 */
async function incompatibleChanges(base: string, revision: string): Promise<string[]> {
  const report = await redocly("diff", base, revision, "--format=json", "--fail-on=none");
  return Report.parse(JSON.parse(report)).changes.filter(isIncompatible).map(lineOf);
}

function isIncompatible(change: Change): boolean {
  const { path, impact, kind, typeName, property, base, revision } = change;
  // A parameter may take more values. Answers may not have more: generated clients check them.
  if (property === "enum" && path.includes("/parameters/")) {
    return !isSubset(base?.value, revision?.value);
  }
  if (property === "enum") return true;
  if (impact === "major") return true;
  // Redocly calls these three minor.
  if (kind === "modified" && property === "default") return true;
  if (kind === "removed" && typeName === "Schema") return true;
  return typeName === "Header" && property === "required" && revision?.value !== true;
}

function isSubset(some: unknown, all: unknown): boolean {
  return Array.isArray(some) && Array.isArray(all) && some.every((value) => all.includes(value));
}

function lineOf({ path, property, verdicts, base, revision }: Change): string {
  const messages = verdicts.map(({ message }) => message).join(" ");
  const values = `${property}: ${JSON.stringify(base?.value)} → ${JSON.stringify(revision?.value)}`;
  return `${path} ${messages || values}`;
}

/** Incompatible changes that were decided on all the same, word by word. */
const DECIDED = [
  // The specification promises a text; the contract had said more. Only organizations to which the platform gives an
  // external_id have another id than a UUID.
  ...["", "~1seals"].map((path) =>
    `#/paths/~1public-audit-log${path}/get/${PAGE}/organization_id ` +
    "`format` of `organization_id` was removed."
  ),
  // Actions are the platform's own. Only where it adds one can a client see one more. Old clients send what is still
  // taken: the pattern is wider than the list.
  '#/components/schemas/OtherEntry/properties/action enum: ["agent_added","conversation_created","feedback_given"] → undefined',
  `#/${GET}/parameters/2/schema enum: ["agent_added","conversation_created","message_created","feedback_given"] → undefined`,
  `#/${GET}/parameters/2/schema \`pattern\` was set to '^[A-Za-z0-9][\\w.:-]{0,62}$'.`,
  `#/${GET}/${PAGE}/items/items/oneOf \`oneOf\` of \`AuditEntry\` was removed.`,
];

describe("the contract", () => {
  it("changes only by additions since the last release", async () => {
    const releases = Array.from(Deno.readDirSync(`${DOCS}releases`), ({ name }) => name)
      .filter((name) => name.endsWith(".json"))
      .sort(new Intl.Collator("en", { numeric: true }).compare);
    const changes = await incompatibleChanges(
      `${DOCS}releases/${releases.at(-1)}`,
      `${DOCS}openapi.json`,
    );
    assertEquals(changes.filter((change) => !DECIDED.includes(change)), []);
  });
});

describe("the comparison", () => {
  it("finds what takes away, narrows or changes a meaning, and passes what only adds", async () => {
    const { paths, components } = structuredClone(document);
    const { get } = paths["/public-audit-log"];
    const { headers, schemas } = components;
    const [, , action = {}, , , offset = {}] = get.parameters.map(({ schema }) => schema);
    const breaks: Record<string, () => unknown> = {
      "parameters/2/schema Enum": () => Object.assign(action, { enum: ["agent_added"] }),
      "parameters/5/schema default": () => Object.assign(offset, { default: 1 }),
      "responses/429": () => Reflect.deleteProperty(get.responses, "429"),
      "headers/RateLimit required": () => Object.assign(headers.RateLimit, { required: false }),
      "properties/total": () =>
        Object.assign(schemas.Page.properties, { total: { type: "string" } }),
      "anyOf/1/properties/agent_name": () =>
        Reflect.deleteProperty(schemas.OtherEntry.properties, "agent_name"),
    };
    const added = { name: "user", in: "query", schema: { type: "string" } };
    Object.assign(get.responses, { 503: { description: "Later" } });
    Object.assign(get.parameters, [...get.parameters, added]);
    assertEquals(await changes(), []);
    for (const edit of Object.values(breaks)) edit();
    const found = (await changes()).join("\n");
    for (const what of Object.keys(breaks)) assertStringIncludes(found, what);

    async function changes(): Promise<string[]> {
      const file = await Deno.makeTempFile({ suffix: ".json" });
      await Deno.writeTextFile(file, JSON.stringify({ ...document, paths, components }));
      const changes = await incompatibleChanges(`${DOCS}openapi.json`, file);
      await Deno.remove(file);
      return changes;
    }
  });
});
