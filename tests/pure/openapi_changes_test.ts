import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import document from "../../docs/openapi.json" with { type: "json" };
import { redocly } from "../../tasks/openapi/redocly.ts";

const DOCS = fileURLToPath(new URL("../../docs/", import.meta.url));

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

/** Lists the changes that can break a client, one line each: not additions. */
async function incompatibleChanges(base: string, revision: string): Promise<string[]> {
  const report = await redocly("diff", base, revision, "--format=json", "--fail-on=none");
  return Report.parse(JSON.parse(report)).changes.filter(isIncompatible).map(lineOf);
}

function isIncompatible(change: Change): boolean {
  const { path, impact, kind, typeName, property, base, revision } = change;
  // A parameter may take more values. An answer may not, because generated clients check them.
  if (property === "enum" && path.includes("/parameters/")) {
    return !isSubset(base?.value, revision?.value);
  }
  if (property === "enum") return true;
  if (impact === "major") return true;
  // Redocly calls the following three minor.
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

describe("the contract", () => {
  it("has times to ask for as plain strings: as date-times, clients would send +0000 or nanoseconds", () => {
    const { parameters } = document.paths["/public-audit-log"].get;
    const times = parameters.filter(({ name }) => ["since", "until"].includes(name));
    assertEquals(times.map(({ schema }) => schema), [{ type: "string" }, { type: "string" }]);
  });

  it("changes only by additions since the last release", async () => {
    const releases = Array.from(Deno.readDirSync(`${DOCS}releases`), ({ name }) => name)
      .filter((name) => name.endsWith(".json"))
      .sort(new Intl.Collator("en", { numeric: true }).compare);
    const last = `${DOCS}releases/${releases.at(-1)}`;
    assertEquals(await incompatibleChanges(last, `${DOCS}openapi.json`), []);
  });
});
