// How all commands send requests until there is an answer, and how they fail.

import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { visible } from "../supabase/functions/_shared/visible.ts";
import { retryAfterS } from "../supabase/functions/audit-log-streams/destinations/destination.ts";

export const EXIT = { gaveUp: 1, refused: 2, keyRefused: 3, differs: 4 } as const;

/** Ends a command. The message says what was seen and what to do. */
export class AuditLogError extends Error {
  constructor(readonly exitCode: number, message: string) {
    super(message);
  }
}

/** Ends with an error that only a person can correct. */
export function refuse(message: string): never {
  throw new AuditLogError(EXIT.refused, message);
}

/** Parses a URL. Refuses one over which others on the way could read along, and one that would show a password. */
export function secureUrl(name: string, text: string): URL {
  const url = new URL(URL.canParse(text) ? text : "none:");
  if (url.username || url.password) refuse(`${name} must not have a user or a password in it.`);
  const isHere = ["127.0.0.1", "[::1]", "localhost"].includes(url.hostname);
  if (url.protocol === "https:" || url.protocol === "http:" && isHere) return url;
  refuse(`${name} must be an https URL: otherwise others could read what is sent.`);
}

/** A failure that may be over later. */
export class Temporary extends Error {
  /** The status of the answer, if there was one, and how long it asked to wait. */
  constructor(message: string, readonly status?: number, readonly waitMs?: number) {
    super(message);
  }
}

export interface ApiOptions {
  url: string | URL;
  key: string;
  /** A file that holds the key. Each request reads it, so that a rotation only has to replace the file. */
  keyFile?: string | undefined;
  /** Go on when caught up, with half of the key's quota. Otherwise, following ends there, or after ten failures in a row. */
  goesOn?: boolean | undefined;
  say?: (text: string) => void;
  /** Waits so many milliseconds. Tests have a clock of their own. */
  wait?: (ms: number) => Promise<unknown>;
}

const TIMEOUT_MS = 120_000;
const FIRST_RETRY_MS = 200;
export const LONGEST_RETRY_MS = 30_000;
/** What is read of an answer, in MB: the largest page has 7.5. It is kept as bytes or as text, twice as long. */
const LARGEST_ANSWER_MB = 16;
/** What is read of an error, in bytes: the API's have at most 4,000. */
const LARGEST_ERROR = 8_192;

export async function ask(
  url: URL,
  options: ApiOptions,
  accept = "application/json",
): Promise<Answer> {
  const { keyFile } = options;
  const key = keyFile ? readKey(keyFile) : options.key;
  const headers = { Authorization: `Bearer ${key}`, Accept: accept };
  const answer = await send(url, { headers });
  const { status, body } = answer;
  if (status === 200) return answer;
  // The API has no such answer: a proxy gave it.
  if (status > 405 || status === 403) throw new Temporary(`${url.host}: status ${status}`);
  if (status === 401) {
    const message = "The API refuses the key: it is wrong, was revoked or has expired. " +
      `Set an active one in ${keyFile || "AUDIT_LOG_API_KEY"}, and run the same command again.`;
    throw new AuditLogError(EXIT.keyRefused, `${message}\n${visible(body)}`);
  }
  const { code, parameters } = parseProblem(body);
  let advice = "Is AUDIT_LOG_URL right? The key was sent to no other URL.";
  if (code === "invalid_parameters" && !parameters.includes("after")) {
    advice = "Correct the arguments.";
  } else if (parameters.includes("after") && url.searchParams.get("after") !== "beginning") {
    // The log never refuses the cursor `beginning`: what does is not the log.
    advice =
      "The saved cursor belongs to another selection or organization: give the same options as before. " +
      "If the API's database was restored, move the file with the cursor away to start again.";
  }
  refuse(`The API refuses the request (${status}). ${advice}\n${visible(body)}`);
}

/** Finds the code and the bad parameters in an error of the API. Another error, as of a proxy, has neither. */
function parseProblem(body: string): { code?: string; parameters: string[] } {
  try {
    const { code, errors = [] } = JSON.parse(body);
    return { code, parameters: errors.map(({ parameter }: { parameter: string }) => parameter) };
  } catch {
    return { parameters: [] };
  }
}

/** Fetch would quote another text in its error. */
export const KEY = /^pck_\w+$/;

/** Reads a key that may be replaced at any moment. */
function readKey(file: string): string {
  try {
    const key = readFileSync(file, "utf8").trim();
    if (KEY.test(key)) return key;
  } catch (error) {
    throw new Temporary(`The key cannot be read: ${messageOf(error)}`);
  }
  throw new Temporary(`${file} does not hold an API key`);
}

interface Answer {
  status: number;
  headers: Headers;
  body: string;
}

/** Reads a body as text, and no more of it than an answer can have. */
async function readBody({ ok, body }: Response): Promise<string> {
  const decoder = new TextDecoder();
  let [text, bytes] = ["", 0];
  for await (const piece of body ?? []) {
    bytes += piece.length;
    text += decoder.decode(piece, { stream: true });
    if (!ok && bytes > LARGEST_ERROR) return `${text.slice(0, LARGEST_ERROR)}…`;
    if (bytes > LARGEST_ANSWER_MB * 1e6) throw new Error(`more than ${LARGEST_ANSWER_MB} MB`);
  }
  return text + decoder.decode();
}

/** Sends a request, and reads its answer. Throws `Temporary` if there is no whole one, or there may be a better one later. */
export async function send(url: URL, init: RequestInit): Promise<Answer> {
  const fail = (error: unknown): never => {
    throw new Temporary(`${url.host}: no whole answer: ${messageOf(error)}`);
  };
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const response = await fetch(url, { ...init, redirect: "manual", signal }).catch(fail);
  const body = await readBody(response).catch(fail);
  const { status, headers } = response;
  if (status < 500 && ![408, 425, 429].includes(status)) return { status, headers, body };
  const id = headers.get("X-Request-Id");
  const message = `${url.host}: status ${status}${id ? `, request id ${visible(id)}` : ""}`;
  const waitS = retryAfterS(headers);
  throw new Temporary(message, status, waitS === undefined ? undefined : 1000 * waitS);
}

/** Tries until it succeeds. A 429 that says how long to wait is no failure. */
export async function persist<T>(attempt: () => Promise<T>, options: ApiOptions): Promise<T> {
  const { goesOn, say = () => {}, wait = sleep } = options;
  // A scheduled job should fail visibly. What runs all the time waits.
  const mostFailures = goesOn ? Infinity : 10;
  for (let failures = 1;; failures++) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof Temporary)) throw error;
      const { message, status, waitMs } = error;
      if (status === 429 && waitMs !== undefined) failures = 0;
      if (failures >= mostFailures) {
        throw new AuditLogError(EXIT.gaveUp, `${message}. Gave up: run the same command again.`);
      }
      const ms = waitMs ??
        (0.5 + Math.random() / 2) * Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** failures);
      say(`${message}. Trying again in ${Math.ceil(ms / 1000)} s`);
      await wait(ms);
    }
  }
}

/** The message of an error and of its causes: only that of an error of fetch says what happened. */
export function messageOf(error: unknown): string {
  if (error instanceof AuditLogError) return error.message;
  if (!(error instanceof Error)) return visible(String(error));
  const message = visible(error.message);
  return error.cause ? `${message}: ${messageOf(error.cause)}` : message;
}
