import { createHash, createHmac } from "node:crypto";
import process from "node:process";
import { type Entry, limited, messageOf, refuse, secureUrl, send, Temporary } from "./client.ts";

/** Entries to deliver together. */
export interface Delivery {
  items: Entry[];
  /** The same entries, as the API wrote them. */
  lines: string[];
  /** Its number, from 0 on, and the query and cursor that led to it. A repeat has the same ones. */
  number: number;
  from: string;
  signal: AbortSignal | null;
}

/** Delivers entries. Resolves when the other side has confirmed it; throws `Temporary` to be called again. */
export type Sink = (delivery: Delivery) => Promise<void>;

/** Makes the sink that `--to` names. `--help` says what each sink needs as FORWARD_TOKEN, which is `token`. */
export async function sinkFor(to: string, token: string): Promise<Sink> {
  const [, kind, text = ""] = to.match(/^(?:(splunk|elasticsearch):)?(https?:.*)$/) ?? [];
  if (to.startsWith("s3://")) return await s3(new URL(to));
  if (!URL.canParse(text)) {
    refuse("--to: https://…, splunk:https://…, elasticsearch:https://… or s3://… Try --help.");
  }
  const url = secureUrl("--to", text);
  if (kind === "splunk") return splunk(url, token);
  if (kind === "elasticsearch") return elasticsearch(url, token);
  return webhook(url, token);
}

/** Posts to a URL. Returns the body of the answer. */
async function post(url: URL, body: string, init: RequestInit): Promise<string> {
  const answer = await send(url, { ...init, method: "POST", body });
  if (answer.status >= 200 && answer.status < 300) return answer.body;
  refuse(
    `${url.host} refuses the entries (${answer.status}): correct --to or FORWARD_TOKEN.\n` +
      answer.body.slice(0, 1000),
  );
}

/**
 * Sends NDJSON, signed as https://www.standardwebhooks.com says. The id is a hash of the body: if a repeat has more
 * entries, it is another message, so that the receiver does not drop it.
 */
function webhook(url: URL, secret: string): Sink {
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  if (key.length < 16) refuse("FORWARD_TOKEN must be whsec_ and 24 random bytes in base64.");
  return async ({ lines, signal }) => {
    const body = lines.map((line) => `${line}\n`).join("");
    const id = `msg_${createHash("sha256").update(body).digest("hex").slice(0, 32)}`;
    const time = Math.floor(Date.now() / 1000);
    const signature = createHmac("sha256", key).update(`${id}.${time}.${body}`).digest("base64");
    const headers = {
      "Content-Type": "application/x-ndjson",
      "webhook-id": id,
      "webhook-timestamp": String(time),
      "webhook-signature": `v1,${signature}`,
    };
    await post(url, body, { headers, signal });
  };
}

/** Sends to Splunk's HTTP Event Collector. Events have no id there: a repeat is stored twice. */
function splunk(url: URL, token: string): Sink {
  const collector = new URL("services/collector/event", `${url.href.replace(/\/$/, "")}/`);
  const headers = { Authorization: `Splunk ${token}`, "Content-Type": "application/json" };
  return async ({ lines, items, signal }) => {
    const events = lines.map((line, n) => {
      const time = Date.parse(items[n]?.created_at ?? "") / 1000;
      return `{"time":${time},"sourcetype":"audit_log","event":${line}}`;
    });
    const answer = await post(collector, events.join("\n"), { headers, signal });
    if (parse(answer).code !== 0) throw new Temporary(`${url.host}: not confirmed: ${answer}`);
  };
}

/** Sends to Elasticsearch's or OpenSearch's `_bulk`. If that has an entry already, it answers 409: no failure. */
function elasticsearch(url: URL, token: string): Sink {
  if (url.pathname === "/") refuse("--to=elasticsearch:https://HOST/INDEX: the index is missing.");
  const bulk = new URL(`${url.href.replace(/\/$/, "")}/_bulk`);
  const headers = {
    "Content-Type": "application/x-ndjson",
    ...token !== "" && { Authorization: token.includes(" ") ? token : `ApiKey ${token}` },
  };
  return async ({ lines, items, signal }) => {
    const body = lines.map((line, n) => {
      const { id, created_at } = items[n] ?? { id: "", created_at: "" };
      const create = JSON.stringify({ create: { _id: `${id}/${created_at}` } });
      return `${create}\n{"@timestamp":"${created_at}",${line.slice(1)}\n`;
    });
    const answer = await post(bulk, body.join(""), { headers, signal });
    const { items: results = [] } = parse(answer);
    if (results.length !== lines.length) throw new Temporary(`${url.host}: not all were answered`);
    const failed = results.find(({ create }) => create.status >= 300 && create.status !== 409);
    if (!failed) return;
    const { status, error } = failed.create;
    const message = `${url.host}: status ${status} for an entry: ${JSON.stringify(error)}`;
    if (status === 429 || status >= 500) throw new Temporary(message);
    refuse(`${message}. Correct the index's mapping.`);
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
  return async ({ lines, number, from, signal }) => {
    const hash = createHash("sha256").update(from).digest("hex").slice(0, 16);
    const Key = `${folder}${String(number).padStart(12, "0")}-${hash}.ndjson`;
    const Body = lines.map((line) => `${line}\n`).join("");
    const object = { Bucket: url.host, Key, Body, ContentType: "application/x-ndjson" };
    try {
      await limited(
        signal,
        (abortSignal) => client.send(new PutObjectCommand(object), { abortSignal }),
      );
    } catch (error) {
      const status = (error as S3Error).$metadata?.httpStatusCode ?? 500;
      if (status >= 500 || status === 429) throw new Temporary(`${url}: ${messageOf(error)}`);
      refuse(`${url} refuses the entries: correct --to or the credentials. ${messageOf(error)}`);
    }
  };
}
