import { datadog } from "./datadog.ts";
import type { Destination, Settings } from "./destination.ts";
import { elasticsearch } from "./elasticsearch.ts";
import { otlp } from "./otlp.ts";
import { s3 } from "./s3.ts";
import { slack } from "./slack.ts";
import { splunk } from "./splunk.ts";
import { webhook } from "./webhook.ts";

export const KINDS = { webhook, splunk, datadog, elasticsearch, s3, otlp, slack };

/** Throws if there is no such kind. */
export function destinationOf(settings: Settings): Destination {
  if (!Object.hasOwn(KINDS, settings.kind)) throw new Error(`no such kind: ${settings.kind}`);
  return KINDS[settings.kind as keyof typeof KINDS](settings);
}
