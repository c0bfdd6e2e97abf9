import type { AuditEntry } from "../data/entries.ts";
import { visible } from "../../seals/visible.ts";

// What `data` says, as it is. Its names `changes` and `caller` are reserved (docs/api.md).

export interface Change {
  name: string;
  before: unknown;
  after: unknown;
}

function isRecord(value: unknown): value is object {
  // A number that keeps its digits is an object, too (JSON.rawJSON).
  return JSON.stringify(value)?.startsWith("{") ?? false;
}

function fieldsOf(value: object): [name: string, value: unknown][] {
  return Object.entries(value);
}

/** The old and new values. Empty if the platform calls something else `changes`. */
export function changesOf({ data }: AuditEntry): Change[] {
  const changes = fieldsOf(data).find(([name]) => name === "changes")?.[1];
  if (!isRecord(changes)) return [];
  const fields = fieldsOf(changes);
  if (!fields.every(([, pair]) => Array.isArray(pair) && pair.length === 2)) return [];
  return fields.map(([name, pair]) => {
    const [before, after]: unknown[] = Array.isArray(pair) ? pair : [];
    return { name, before, after };
  });
}

/** The fields of `data` but for its changes, those of the caller by their path. */
export function factsOf(entry: AuditEntry): [name: string, value: unknown][] {
  const hasChanges = changesOf(entry).length > 0;
  return fieldsOf(entry.data).flatMap(([name, value]) => {
    if (name === "changes" && hasChanges) return [];
    if (name !== "caller" || !isRecord(value)) return [[name, value]];
    return fieldsOf(value).map(([field, value]): [string, unknown] => [`caller.${field}`, value]);
  });
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
  return `${visible(name)}: ${written(before)} → ${written(after)}`;
}
