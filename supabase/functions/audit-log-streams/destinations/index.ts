import { datadog } from "./datadog.ts";
import type { Destination, Kind, Settings } from "./destination.ts";
import { elasticsearch } from "./elasticsearch.ts";
import { otlp } from "./otlp.ts";
import { s3 } from "./s3.ts";
import { sentinel } from "./sentinel.ts";
import { slack } from "./slack.ts";
import { splunk } from "./splunk.ts";
import { webhook } from "./webhook.ts";

/** The only list of destinations. */
export const KINDS = { webhook, splunk, sentinel, datadog, elasticsearch, s3, otlp, slack };

export type KindName = keyof typeof KINDS;

export function kindOf(kind: string): Kind | undefined {
  return Object.hasOwn(KINDS, kind) ? KINDS[kind as KindName] : undefined;
}

/** The most entries in a batch, of the kinds that take less than a page of the API. */
export const MOST_ENTRIES = Object.fromEntries(
  Object.entries<Kind>(KINDS).map(([name, { mostEntries }]) => [name, mostEntries]),
);

/** Throws if there is no such kind, or if the kind does not take the address. */
export function destinationOf(settings: Settings): Destination {
  const kind = kindOf(settings.kind);
  if (!kind) throw new Error(`no such kind: ${settings.kind}`);
  const to = { ...settings, url: kind.address?.(settings.url) ?? new URL(settings.url) };
  return { ...kind, build: async (batch, secrets) => await kind.build(batch, secrets, to) };
}
