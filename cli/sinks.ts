// Where `forward` delivers to: the destinations of streams, with what only the command has, such as files of headers.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import process from "node:process";
import {
  type Batch,
  type Destination,
  idOf,
  sendAndJudge,
  shown,
  timeOf,
} from "../supabase/functions/audit-log-streams/destinations/destination.ts";
import { destinationOf } from "../supabase/functions/audit-log-streams/destinations/index.ts";
import { exchange, refuse, refuseCredentials, secureUrl, Temporary } from "./client.ts";
import { writeDurably } from "./files.ts";

export interface Delivery {
  lines: string[];
  organizationId: string;
  /**
   * The number of its page, from 0 on, and the organization, query and cursor that led there. All pieces of a page
   * have the same, and so does a repeat.
   */
  number: number;
  from: string;
  say?: ((text: string) => void) | undefined;
}

/** Delivers entries. Resolves when the other side has confirmed them; throws `Temporary` to be called again. */
export interface Sink {
  (delivery: Delivery): Promise<void>;
  /** Gets a page in pieces of so many bytes and entries at most; without it, whole, and may name an object by its `number`. */
  mostBytes?: number;
  mostEntries?: number | undefined;
}

export interface SinkOptions {
  /** A file of headers, a line each; for https, instead of the signature. */
  headers?: string | undefined;
  /** `ndjson` (the default), or `array`, a JSON array. */
  body?: string | undefined;
  /** A file for entries that the sink cannot take. */
  refused?: string | undefined;
}

const OPTIONS_OF: Record<string, (keyof SinkOptions)[]> = {
  webhook: ["headers", "body"],
  otlp: ["headers", "refused"],
  elasticsearch: ["refused"],
};

/** Of the entries in a body that is posted. Some systems refuse more than 1 MB. */
const MOST_BYTES = 900_000;

/** If so many entries are refused and none is taken, no entry is at fault. */
const MOST_REFUSED = 10;

/** Makes the sink that `--to` names. `--help` says what each sink needs as FORWARD_TOKEN, which is `token`. */
export function sinkFor(to: string, token: string, options: SinkOptions = {}): Sink {
  const [, kind = "webhook", text = ""] =
    to.match(/^(?:(splunk|elasticsearch|datadog|otlp|slack):)?((?:https?|s3):.*)$/) ?? [];
  const isBucket = to.startsWith("s3://");
  if (URL.canParse(text)) refuseCredentials("--to", new URL(text));
  for (const name of ["headers", "body", "refused"] as const) {
    const isFor = !isBucket && OPTIONS_OF[kind]?.includes(name);
    if (options[name] && !isFor) refuse(`--${name} is not for --to=${to}. Try --help.`);
  }
  if (isBucket) return bucket(new URL(to));
  if (!URL.canParse(text)) refuse("--to: https://…, splunk:https://…, s3://… Try --help.");
  const url = secureUrl("--to", text);
  const { headers: file, body = "ndjson", refused } = options;
  if (kind === "elasticsearch" && url.pathname === "/") {
    refuse("--to=elasticsearch:https://HOST/INDEX: the index is missing.");
  }
  if (!["ndjson", "array"].includes(body)) refuse("--body must be array or ndjson.");
  if (kind === "webhook" && !isSigningSecret(token) && (token || !file)) {
    refuse("FORWARD_TOKEN must be whsec_ and 24 random bytes in base64. Or give --headers.");
  }
  const destination = destinationOf({ kind, url: url.href, body, gzip: false });
  const given = file ? readHeaders(file) : {};
  const sink = sinkOf(destination, token ? [token] : [], { url, given, refused });
  return Object.assign(sink, { mostBytes: MOST_BYTES, mostEntries: destination.mostEntries });
}

interface Target {
  url: URL;
  given?: Record<string, string>;
  refused?: string | undefined;
  /** Then a page is never sent in halves, because it names the object. */
  isBucket?: boolean;
}

function sinkOf(destination: Destination, secrets: string[], target: Target): Sink {
  const { url: { host }, given, refused, isBucket } = target;
  const withHeaders: Destination = {
    ...destination,
    async build(batch, secrets) {
      const request = await destination.build(batch, secrets);
      return { ...request, headers: { ...request.headers, ...given } };
    },
  };
  return async function deliver(delivery: Delivery): Promise<void> {
    const { lines, number, organizationId, from, say } = delivery;
    const name = createHash("sha256").update(from).digest("hex").slice(0, 16);
    const batch: Batch = { what: "entries", lines, number, name, shownId: organizationId };
    let status = 0;
    const verdict = await sendAndJudge(withHeaders, batch, secrets, async ({ url, ...init }) => {
      const answer = await exchange(url, init);
      status = answer.status;
      return answer;
    });
    if (verdict.decision === "delivered") {
      const all = verdict.setAside ?? [];
      if (all.length >= MOST_REFUSED && all.length === lines.length) {
        refuse(`${host} refuses all entries: ${shown(all[0]?.reason ?? "")}. Correct the index.`);
      }
      for (const { n, reason } of all) setAside(lines[n] ?? "", reason, say);
      return;
    }
    const { error } = verdict;
    if (verdict.decision === "wait" && !verdict.isSetting) {
      const waitMs = verdict.waitS === undefined ? undefined : verdict.waitS * 1000;
      throw new Temporary(`${host}: ${error}`, status, waitMs);
    }
    const isSuccess = status >= 200 && status < 300;
    if (verdict.decision === "refused" && !isBucket && (isSuccess || status === 413)) {
      if (lines.length === 1) return setAside(lines[0] ?? "", JSON.stringify(error), say);
      const half = Math.ceil(lines.length / 2);
      await deliver({ ...delivery, lines: lines.slice(0, half) });
      return await deliver({ ...delivery, lines: lines.slice(half) });
    }
    if (isSuccess) refuse(`${host}: ${error}. Correct the index or the token.`);
    const secret = isBucket ? "the credentials" : "FORWARD_TOKEN";
    refuse(`${host} refuses the entries (${status}): correct --to or ${secret}.\n${error}`);
  };

  /** Writes an entry that only this sink cannot take to the file for such, or ends. */
  function setAside(line: string, reason: string, say: Delivery["say"]): void {
    const why = `${host} refuses the entry ${idOf(line)} of ${timeOf(line)}: ${shown(reason)}`;
    if (!refused) {
      refuse(`${why}. Correct the index's mapping, or give --refused=FILE for such entries.`);
    }
    writeDurably(refused, "a", `{"reason":${reason},"entry":${line}}\n`);
    say?.(`${why}. It is in ${refused}`);
  }
}

function isSigningSecret(secret: string): boolean {
  try {
    return atob(secret.replace(/^whsec_/, "")).length >= 16;
  } catch {
    return false;
  }
}

/** Reads headers, one a line. They may be secrets: an error names only the line. */
function readHeaders(file: string): Record<string, string> {
  const lines = readFileSync(file, "utf8").split(/\r?\n/);
  const headers = lines.flatMap((line, n) => {
    if (line.trim() === "") return [];
    const [, name = "", value = ""] = line.match(/^([^:\s]+):(.*)$/) ?? [];
    try {
      return [...new Headers([[name, value]])];
    } catch {
      refuse(
        `--headers: line ${n + 1} of ${file} is not a header. Write NAME: VALUE on each line.`,
      );
    }
  });
  return Object.fromEntries(headers);
}

/** An S3-compatible bucket, with the variables of AWS's own programs. The page names the object, so a repeat writes the same one. */
function bucket({ host, pathname }: URL): Sink {
  const { env } = process;
  const region = env["AWS_REGION"] ?? env["AWS_DEFAULT_REGION"];
  const [id, key, session] = ["ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN"]
    .map((name) => env[`AWS_${name}`]);
  if (!id || !key) {
    refuse(
      "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set. For a profile or a role, " +
        'eval "$(aws configure export-credentials --format env)" sets them.',
    );
  }
  const given = env["AWS_ENDPOINT_URL_S3"] ?? env["AWS_ENDPOINT_URL"];
  if (!given && !region) refuse("AWS_REGION is not set: it is the region of the bucket.");
  const url = secureUrl("AWS_ENDPOINT_URL_S3", given ?? `https://s3.${region}.amazonaws.com`);
  url.pathname = `${url.pathname.replace(/\/$/, "")}/${host}${pathname}`;
  const destination = destinationOf({ kind: "s3", url: url.href, region, gzip: false });
  return sinkOf(destination, [[id, key, session].filter(Boolean).join(":")], {
    url,
    isBucket: true,
  });
}
