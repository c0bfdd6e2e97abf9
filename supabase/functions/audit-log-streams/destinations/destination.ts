// What a destination is: it says what to send and what an answer means. The network is the caller's.

import type { Leased } from "../queue.ts";

/** Entries to deliver together, or seals, or the marked entry of a test. */
export type Batch = Pick<Leased, "what" | "lines" | "number" | "name" | "platform_id">;

export interface Outgoing {
  method: "POST" | "PUT";
  url: URL;
  headers: Record<string, string>;
  body: Uint8Array<ArrayBuffer>;
}

export interface Answer {
  status: number;
  headers: Headers;
  body: string;
}

/**
 * What an answer means: the batch is `delivered`, except for lines that are rejected; or it is `rejected`, because of
 * something in it or its size: then less is tried at once, down to one entry; or it must `wait`, perhaps until somebody
 * has corrected the address or the secret; or the destination is `gone`, and wants no more.
 */
export interface Verdict {
  decision: "delivered" | "rejected" | "wait" | "gone";
  /** Lines by their number in the batch. */
  rejected?: { n: number; reason: string }[];
  error?: string;
  waitS?: number;
}

export interface Field {
  label: string;
  description?: string;
  placeholder?: string;
  options?: { value: string; label: string }[];
  isOptional?: boolean;
  isMultiline?: boolean;
}

/** A kind of destination: all that anybody knows of it, the function and the console. */
export interface Kind {
  name: string;
  hint: string;
  /** Asks for its address, unless that is the same for everybody. The placeholder is a whole one. */
  url: string | Field;
  /** Where entries go, from an address as people paste it. Throws an error that says what is meant. */
  address?(url: string): URL;
  more?: Field & { name: "region" | "body" };
  /** The parts of its secret, which colons join. None: we make the secret. */
  secrets: Field[];
  /** The secret is an address that begins with this, which is no part of it. */
  secretBegins?: string;
  /** Where a test shows up, and what to search for there. */
  look: string;
  search?: string;
  caution?: string;
  /** The most entries in a batch, if that is less than a page of the API: it is for a few actions. */
  mostEntries?: number;
  /** Asks for a token, which `build` then gets instead of the secrets. Its answer is JSON with `access_token`. */
  askForToken?(secrets: string[]): Outgoing;
  /** The first secret is the present one. During a rotation, the one before follows. */
  build(batch: Batch, secrets: string[], to: Place): Outgoing | Promise<Outgoing>;
  /** What an answer means to this kind in particular. Without it, or if it is undefined, the status says so. */
  read?(answer: Answer, batch: Batch): Verdict | undefined;
  /** Whether a success is the destination's own, and not that of a page where people sign in. */
  isOwn?(answer: Answer): boolean;
}

type Place = Omit<Settings, "url"> & { url: URL };

export interface Destination extends Omit<Kind, "build"> {
  build(batch: Batch, secrets: string[]): Promise<Outgoing>;
}

/** Where a destination is, and how it is spoken to: what is no secret. */
export interface Settings {
  kind: string;
  url: string;
  /** For a webhook: `ndjson` (the default) or `array`. */
  body?: string | undefined;
  region?: string | undefined;
}

export const JSON_TYPE = "application/json";
export const NDJSON = "application/x-ndjson";

interface Line {
  /** Of an entry; of a seal, its number and itself: a chain that was rewritten has other seals under the same numbers. */
  id: string;
  /** As 2026-11-20T08:00:00.000Z. */
  time: string;
  /** A code, or `seal`. */
  action: string;
  /** All its fields. Never to be rewritten: long numbers are rounded. */
  fields: Record<string, string | number>;
}

export function parse(line: string): Line {
  const fields = JSON.parse(line);
  return "seal" in fields
    ? { id: `${fields.sequence}:${fields.seal}`, time: fields.sealed_at, action: "seal", fields }
    : { id: fields.id, time: fields.created_at, action: fields.action, fields };
}

/** A path under an address that people gave: with slashes or the path at its end, or an `ending`, and with a query. */
export function under(address: string | URL, path: string, ending = /$/): URL {
  const url = new URL(address);
  const base = url.pathname.replace(/\/+$/, "").replace(ending, "");
  url.pathname = base.endsWith(`/${path}`) ? base : `${base}/${path}`;
  return url;
}

/** Sends a batch and judges the answer. The verdict has no secret in it, even if the answer repeats what was sent. */
export async function sendAndJudge(
  destination: Destination,
  batch: Batch,
  secrets: string[],
  send: (request: Outgoing) => Promise<Answer>,
): Promise<Verdict> {
  const parts = partsOf(secrets);
  if (parts.length > MOST_PARTS) {
    return { decision: "wait", error: `the secret has more than ${MOST_PARTS} words` };
  }
  if (destination.askForToken) {
    const answer = await send(destination.askForToken(secrets));
    const [, token] = answer.body.match(/"access_token"\s*:\s*"([\w.~+/=-]+)"/) ?? [];
    if (!isSuccess(answer) || !token) {
      return later({ ...answer, body: hide(answer.body, parts) }, "no token: ");
    }
    secrets = [token];
  }
  // Its error may quote the secret: as a header that Deno refuses, and as a character that is not base64.
  const request = await destination.build(batch, secrets).catch(() => undefined);
  if (!request) {
    const error = "the secret, or a setting, does not have the form that this kind takes";
    return { decision: "wait", error };
  }
  const { headers } = request;
  // A line break would begin a header of its own, and fetch would quote the value in its error.
  if (Object.values(headers).some((value) => /[^ -~]/.test(value))) {
    return { decision: "wait", error: "the secret must be one line of ASCII characters" };
  }
  const answer = await send(request);
  // A signature, too. Not its parts: "Signature" is a word of S3's errors.
  const sent = Object.entries(headers).flatMap(([name, value]) =>
    name.startsWith("content-") ? [] : value.split(" ")
  );
  const judged = { ...answer, body: hide(answer.body, [...parts, ...sent]) };
  const own = destination.read?.(judged, batch);
  if (own) return own;
  if (isSuccess(answer)) {
    return destination.isOwn?.(judged) === false ? unconfirmed(judged) : { decision: "delivered" };
  }
  const isRejection = [400, 413, 422].includes(answer.status);
  const decision = answer.status === 410 ? "gone" : isRejection ? "rejected" : "wait";
  return { ...later(judged), decision };
}

/** An answer is searched for each part of a secret, which takes processor time. */
const MOST_PARTS = 100;

/** Secrets and their parts, because JSON or a URL would rewrite one with a slash. */
export function partsOf(secrets: string[]): string[] {
  const parts = secrets.flatMap((secret) => [...secret.split(/\s+/), ...secret.split(/[^\w-]+/)]);
  return [...new Set(parts)].filter(({ length }) => length >= 8);
}

/** Leaves parts of what was sent out of a text. */
export function hide(text: string, parts: string[]): string {
  return parts.filter(({ length }) => length >= 8)
    .sort((one, other) => other.length - one.length)
    .reduce((shown, part) => shown.replaceAll(part, "…"), text);
}

function later({ status, headers, body }: Answer, why = ""): Verdict {
  const error = [`${why}status ${status}`, shown(body)].filter(Boolean).join(": ");
  const waitS = retryAfterS(headers);
  return { decision: "wait", error, ...waitS !== undefined && { waitS } };
}

export function isSuccess({ status }: Answer): boolean {
  return status >= 200 && status < 300;
}

export function unconfirmed({ status, body }: Answer): Verdict {
  return { decision: "wait", error: `status ${status} without a confirmation: ${shown(body)}` };
}

/** Whether an answer is a JSON object, or empty. */
export function isJson({ body }: Answer): boolean {
  return /^\s*(\{[^]*\}\s*)?$/.test(body);
}

/** The beginning of what a server says, on one line. What would hide or turn text is written as \u202e. */
export function shown(text: string): string {
  const escape = (char: string) => `\\u${char.codePointAt(0)?.toString(16).padStart(4, "0")}`;
  return text.slice(0, 200).replaceAll(/\s+/g, " ").trim().replaceAll(/\p{C}/gu, escape)
    // Half of a character at the end is no JSON that Postgres takes.
    .slice(0, 200).replace(/\p{Cs}$/u, "");
}

/** Reads `Retry-After`, seconds or a date (RFC 9110 section 10.2.3). */
export function retryAfterS(headers: Headers): number | undefined {
  const value = headers.get("Retry-After");
  if (value === null) return undefined;
  const seconds = /^\d+$/.test(value) ? Number(value) : (Date.parse(value) - Date.now()) / 1000;
  return Number.isNaN(seconds) ? undefined : boundedS(seconds);
}

/** Keeps a wait that a server asks for within what helps: asking at once, or days later, helps nobody. */
export function boundedS(seconds: number): number {
  return Math.min(Math.max(seconds, 1), 3600);
}

export async function pack(url: URL, text: string, others: Outgoing["headers"]): Promise<Outgoing> {
  const headers = { "content-type": JSON_TYPE, "content-encoding": "gzip", ...others };
  return { method: "POST", url, headers, body: await zip(text) };
}

export async function zip(text: string): Promise<Uint8Array<ArrayBuffer>> {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

export function encode(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}
