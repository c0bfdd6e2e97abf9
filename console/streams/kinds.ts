import {
  type KindName,
  kindOf as find,
  KINDS,
} from "../../supabase/functions/audit-log-streams/destinations/index.ts";
import type { Kind } from "../../supabase/functions/audit-log-streams/destinations/destination.ts";

// What a person enters for each kind of destination. The kinds say it themselves.

export type { Field } from "../../supabase/functions/audit-log-streams/destinations/destination.ts";
export type { KindName };

export const KIND_OF: Record<KindName, Kind> = KINDS;

export function kindOf({ destination: { kind } }: { destination: { kind: string } }) {
  return find(kind);
}

export function secretOf(kind: KindName, parts: string[]): string {
  const { name, secretBegins = "", secrets } = KIND_OF[kind];
  const secret = parts.join(":");
  if (!secret.startsWith(secretBegins)) {
    throw new Error(`${name}: the ${secrets[0]?.label.toLowerCase()} begins with ${secretBegins}`);
  }
  if (!secrets[0]?.isMultiline && /[^ -~]/.test(secret)) {
    throw new Error("The secret has a line break, or a character that is not ASCII.");
  }
  return secret.slice(secretBegins.length);
}

export function hostOf(url: string): string {
  return URL.parse(url)?.host ?? "";
}

/** A kind and a host: whoever is there gets the secret. */
export function whereOf({ kind, url }: { kind: string; url: string }): string {
  return `${kind} ${hostOf(url)}`;
}
