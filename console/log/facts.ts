import type { Action, AuditEntry } from "../data/entries.ts";
import { visible } from "../../supabase/functions/_shared/visible.ts";

// What `data` says, as it is. Its names `changes` and `caller` are reserved (docs/api.md).

export interface Change {
  name: string;
  before: unknown;
  after: unknown;
}

/** Empty for what is no record. A number that keeps its digits is an object, too (JSON.rawJSON). */
function fieldsOf(value: unknown): [name: string, value: unknown][] {
  return JSON.stringify(value)?.startsWith("{") ? Object.entries(value as object) : [];
}

/** The old and new values. Empty if the platform calls something else `changes`. */
export function changesOf({ data }: AuditEntry): Change[] {
  const fields = fieldsOf(data["changes"]);
  const changes = fields.flatMap(([name, pair]) =>
    Array.isArray(pair) && pair.length === 2 ? [{ name, before: pair[0], after: pair[1] }] : []
  );
  return changes.length === fields.length ? changes : [];
}

/** The fields of `data` but for its changes, those of the caller by their path. */
export function factsOf(entry: AuditEntry): [name: string, value: unknown][] {
  const hasChanges = changesOf(entry).length > 0;
  return Object.entries(entry.data).flatMap(([name, value]) => {
    if (name === "changes" && hasChanges) return [];
    return name === "caller" ? byPath(name, value) : [[name, value]];
  });
}

function byPath(path: string, value: unknown): [path: string, value: unknown][] {
  const fields = fieldsOf(value);
  if (fields.length === 0) return [[path, value]];
  return fields.flatMap(([name, value]) => byPath(`${path}.${name}`, value));
}

/** What the action was done to, as the catalogue has it. The name is the one that a person knows, or else the id. */
export function targetOf(
  { action, data }: AuditEntry,
  catalogue: Action[],
): { id: string; name: string } | undefined {
  const found = catalogue.find(({ code }) => code === action);
  const [id, name] = [found?.target, found?.target_name]
    .map((field) => typeof field === "string" ? data[field] : undefined);
  if (typeof id !== "string") return undefined;
  return { id, name: typeof name === "string" && name ? name : id };
}

/** A text as it is, and all else as JSON: also a text that could be taken for JSON or for nothing. */
export function written(value: unknown): string {
  const text = typeof value === "string" && isPlain(value) ? value : JSON.stringify(value);
  return visible(text);
}

function isPlain(text: string): boolean {
  if (text.trim() !== text || text === "") return false;
  try {
    JSON.parse(text);
    return false;
  } catch {
    return true;
  }
}

export function writtenChange({ name, before, after }: Change): string {
  // No line ends at the arrow.
  return `${visible(name)}: ${written(before)}\u00a0→\u00a0${written(after)}`;
}
