import { createHash, createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import process from "node:process";
import { visible } from "../common/visible.ts";
import { limited, messageOf, refuse, refuseCredentials } from "./client.ts";
import { secureUrl, send, Temporary } from "./client.ts";
import { writeDurably } from "./files.ts";
import type { Entry } from "./follow.ts";

const NDJSON = "application/x-ndjson";

/** Entries to deliver together. */
export interface Delivery {
  items: Entry[];
  /** The same entries, as the API wrote them. */
  lines: string[];
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
  /** Gets a page in pieces of so many bytes at most; without it, whole, and may name an object by its `number`. */
  mostBytes?: number;
}

/** How a sink delivers. Each option is for some sinks only. */
export interface SinkOptions {
  /** For https: a file of headers, a line each, instead of the signature. */
  headers?: string | undefined;
  /** For https: `ndjson` (the default), or `array`, a JSON array. */
  body?: string | undefined;
  /** For elasticsearch: a file for entries that it cannot map. */
  refused?: string | undefined;
}

/** Of the entries in a body that is posted. Some systems refuse more than 1 MB. */
const MOST_BYTES = 900_000;

/** Makes the sink that `--to` names. `--help` says what each sink needs as FORWARD_TOKEN, which is `token`. */
export async function sinkFor(to: string, token: string, options: SinkOptions = {}): Promise<Sink> {
  const [, kind, text = ""] = to.match(/^(?:(splunk|elasticsearch):)?((?:https?|s3):.*)$/) ?? [];
  if (URL.canParse(text)) refuseCredentials("--to", new URL(text));
  const isFor = {
    headers: to.startsWith("http"),
    body: to.startsWith("http"),
    refused: kind === "elasticsearch",
  };
  for (const name of ["headers", "body", "refused"] as const) {
    if (options[name] && !isFor[name]) refuse(`--${name} is not for --to=${to}. Try --help.`);
  }
  if (to.startsWith("s3://")) return await s3(new URL(to));
  if (!URL.canParse(text)) {
    refuse("--to: https://…, splunk:https://…, elasticsearch:https://… or s3://… Try --help.");
  }
  const url = secureUrl("--to", text);
  const sink = kind === "splunk"
    ? splunk(url, token)
    : kind === "elasticsearch"
    ? elasticsearch(url, token, options.refused)
    : webhook(url, token, options);
  return Object.assign(sink, { mostBytes: MOST_BYTES });
}

/** Posts to a URL. Returns the body of the answer. */
async function post(url: URL, body: string, headers: HeadersInit): Promise<string> {
  const { status, body: given } = await send(url, { headers, method: "POST", body });
  const answer = withoutSecrets(given, headers);
  if (status >= 200 && status < 300) return answer;
  refuse(
    `${url.host} refuses the entries (${status}): correct --to or FORWARD_TOKEN.\n` +
      visible(answer),
  );
}

/** Leaves the values of headers out of an answer that repeats them, because it may be shown. */
function withoutSecrets(answer: string, headers: HeadersInit): string {
  const values = [...new Headers(headers)].flatMap(([name, value]) =>
    name === "content-type" ? [] : [value, ...value.split(" ")]
  );
  return values.filter(({ length }) => length >= 8)
    .reduce((text, value) => text.replaceAll(value, "…"), answer);
}

/** Sends NDJSON or arrays: with headers from a file, or signed, or both. */
function webhook(url: URL, secret: string, options: SinkOptions): Sink {
  const { headers: file, body: form = "ndjson" } = options;
  if (!["ndjson", "array"].includes(form)) refuse("--body must be array or ndjson.");
  const isArray = form === "array";
  const given = file ? readHeaders(file) : [];
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  if (key.length < 16 && (secret || !file)) {
    refuse("FORWARD_TOKEN must be whsec_ and 24 random bytes in base64. Or give --headers.");
  }
  return async ({ lines }) => {
    const body = isArray ? `[${lines.join(",\n")}]` : lines.map((line) => `${line}\n`).join("");
    const headers = new Headers({ "Content-Type": isArray ? "application/json" : NDJSON });
    if (secret) { for (const [name, value] of signature(body, key)) headers.set(name, value); }
    for (const [name, value] of given) headers.set(name, value);
    await post(url, body, headers);
  };
}

/**
 * Signs a body as https://www.standardwebhooks.com says. The id is a hash of the body: if a repeat has more entries,
 * it is another message, so that the receiver does not drop it.
 */
function signature(body: string, key: Buffer): [name: string, value: string][] {
  const id = `msg_${createHash("sha256").update(body).digest("hex").slice(0, 32)}`;
  const time = Math.floor(Date.now() / 1000);
  const signed = createHmac("sha256", key).update(`${id}.${time}.${body}`).digest("base64");
  return [
    ["webhook-id", id],
    ["webhook-timestamp", String(time)],
    ["webhook-signature", `v1,${signed}`],
  ];
}

/** Reads headers, one a line. They may be secrets: an error names only the line. */
function readHeaders(file: string): [name: string, value: string][] {
  const lines = readFileSync(file, "utf8").split(/\r?\n/);
  return lines.flatMap((line, n) => {
    if (line.trim() === "") return [];
    const [, name = "", value = ""] = line.match(/^([^:\s]+):(.*)$/) ?? [];
    try {
      return [...new Headers([[name, value]])];
    } catch {
      refuse(`--headers: line ${n + 1} of ${file} is no header. Write NAME: VALUE on each line.`);
    }
  });
}

/** Sends to Splunk's HTTP Event Collector. Events have no id there: a repeat is stored twice. */
function splunk(url: URL, token: string): Sink {
  const collector = new URL("services/collector/event", `${url.href.replace(/\/$/, "")}/`);
  const headers = { Authorization: `Splunk ${token}`, "Content-Type": "application/json" };
  return async ({ lines, items }) => {
    const events = lines.map((line, n) => {
      const time = Date.parse(items[n]?.created_at ?? "") / 1000;
      return `{"time":${time},"sourcetype":"audit_log","event":${line}}`;
    });
    const answer = await post(collector, events.join("\n"), headers);
    if (parse(answer).code !== 0) {
      throw new Temporary(`${url.host}: not confirmed: ${visible(answer.slice(0, 500))}`);
    }
  };
}

/** Sends to Elasticsearch's or OpenSearch's `_bulk`. If that has an entry already, it answers 409: no failure. */
function elasticsearch(url: URL, token: string, refused?: string): Sink {
  if (url.pathname === "/") refuse("--to=elasticsearch:https://HOST/INDEX: the index is missing.");
  const bulk = new URL(`${url.href.replace(/\/$/, "")}/_bulk`);
  const headers = {
    "Content-Type": NDJSON,
    ...token !== "" && { Authorization: token.includes(" ") ? token : `ApiKey ${token}` },
  };
  return async ({ lines, items, say }) => {
    const body = lines.map((line, n) => {
      const { id, created_at } = items[n] ?? { id: "", created_at: "" };
      const create = JSON.stringify({ create: { _id: `${id}/${created_at}` } });
      return `${create}\n{"@timestamp":${JSON.stringify(created_at)},${line.slice(1)}\n`;
    });
    const answer = await post(bulk, body.join(""), headers);
    const { items: results = [] } = parse(answer);
    if (results.length !== lines.length) throw new Temporary(`${url.host}: not all were answered`);
    const failures = results.flatMap(({ create: { status, error } }, n) =>
      status < 300 || status === 409 ? [] : [{ status, error, n }]
    );
    const busy = failures.find(({ status }) => status === 429 || status >= 500);
    if (busy) throw new Temporary(`${url.host}: status ${busy.status} for an entry`);
    for (const { status, error, n } of failures) {
      const { id = "", created_at = "" } = items[n] ?? {};
      const reason = JSON.stringify(error);
      const why = visible(reason.slice(0, 500));
      const message = `${url.host} refuses the entry ${id} of ${created_at}: ${why}`;
      // Any other status is of the index or of the token: the next entry would be refused, too.
      if (status !== 400) refuse(`${message}. Correct the index or the token.`);
      if (!refused) {
        refuse(`${message}. Correct the index's mapping, or give --refused=FILE for such entries.`);
      }
      writeDurably(refused, "a", `{"reason":${reason},"entry":${lines[n]}}\n`);
      say?.(`${message}. It is in ${refused}`);
    }
  };
}

/** What Splunk and Elasticsearch answer. */
interface Confirmation {
  code?: number;
  items?: { create: { status: number; error?: unknown } }[];
}

/** Parses an answer. One that is not JSON, as of a proxy, confirms nothing. */
function parse(answer: string): Confirmation {
  try {
    return JSON.parse(answer) ?? {};
  } catch {
    return {};
  }
}

/** The part of the client library that is used. */
interface S3Library {
  S3Client: new (options: object) => { send(command: object, options: object): Promise<unknown> };
  PutObjectCommand: new (input: object) => object;
}
type S3Error = { $metadata?: { httpStatusCode?: number } };

/**
 * Writes to an S3-compatible bucket. AWS's own library finds credentials wherever AWS and others put them (roles,
 * profiles, tokens of a pod); only this sink loads it. The page names the object, so a repeat writes the same one.
 */
async function s3(url: URL): Promise<Sink> {
  const library = "@aws-sdk/client-s3";
  const { S3Client, PutObjectCommand }: S3Library = await import(library).catch((error) => {
    refuse(`${messageOf(error)}. Run npm install ${library}, and the same command again.`);
  });
  const isCompatible = process.env["AWS_ENDPOINT_URL_S3"] ?? process.env["AWS_ENDPOINT_URL"];
  const client = new S3Client({ forcePathStyle: isCompatible !== undefined });
  const folder = url.pathname.replace(/^\//, "").replace(/[^/]$/, "$&/");
  return async ({ lines, number, from }) => {
    const hash = createHash("sha256").update(from).digest("hex").slice(0, 16);
    const Key = `${folder}${String(number).padStart(12, "0")}-${hash}.ndjson`;
    const Body = lines.map((line) => `${line}\n`).join("");
    const object = { Bucket: url.host, Key, Body, ContentType: NDJSON };
    try {
      await limited((abortSignal) => client.send(new PutObjectCommand(object), { abortSignal }));
    } catch (error) {
      const status = (error as S3Error).$metadata?.httpStatusCode ?? 500;
      if (status >= 500 || status === 429) throw new Temporary(`${url}: ${messageOf(error)}`);
      refuse(`${url} refuses the entries: correct --to or the credentials. ${messageOf(error)}`);
    }
  };
}
