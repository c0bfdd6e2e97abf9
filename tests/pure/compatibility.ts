import { z } from "zod";
import { redocly } from "../../docs/reference.ts";

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
 * What of a document's changes a client could stumble over, one line each: something that it may
 * rely on goes away, narrows or changes its meaning. Additions are none.
 */
export async function incompatibleChanges(base: string, revision: string): Promise<string[]> {
  const report = await redocly("diff", base, revision, "--format=json", "--fail-on=none");
  return Report.parse(JSON.parse(report)).changes.filter(isIncompatible).map(describe);
}

function isIncompatible(
  { path, impact, kind, typeName, property, base, revision }: Change,
): boolean {
  // What a parameter may be can become more; what answers have cannot: generated clients check it.
  if (property === "enum" && path.includes("/parameters/")) {
    return !isSubset(base?.value, revision?.value);
  }
  if (property === "enum") return true;
  if (impact === "major") return true;
  // Redocly takes these three lightly.
  if (kind === "modified" && property === "default") return true;
  if (kind === "removed" && typeName === "Schema") return true;
  return typeName === "Header" && property === "required" && revision?.value !== true;
}

function isSubset(some: unknown, all: unknown): boolean {
  return Array.isArray(some) && Array.isArray(all) && some.every((value) => all.includes(value));
}

function describe({ path, property, verdicts, base, revision }: Change): string {
  const messages = verdicts.map(({ message }) => message).join(" ");
  const values = `${property}: ${JSON.stringify(base?.value)} → ${JSON.stringify(revision?.value)}`;
  return `${path} ${messages || values}`;
}
