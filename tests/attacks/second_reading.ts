// Reads the contract (docs/api.md) a second time, to judge what the service answers. It shares no
// code with the service, and uses neither URL nor zod nor Date, because the service uses them.

/** A request as it goes over the wire. */
export interface HttpRequest {
  method: string;
  /** As in the request line: path and query string. */
  target: string;
  headers: [name: string, value: string][];
}

/** The keys that work. */
export interface KnownKeys {
  /** The organizations of tokens. */
  active: Map<string, string>;
  /** A token whose quota is used up. */
  exhausted: string;
}

/** The only right answer to a request. */
export type Verdict =
  | { status: 400 | 401 | 404 | 405 | 429 }
  | { status: 200; organizationId: string; query: ExpectedQuery };

/** The query that the page must answer. */
export interface ExpectedQuery {
  start: string;
  end: string;
  action: string | undefined;
  person: string | undefined;
  limit: number;
  offset: number;
}

const ACTIONS = ["agent_added", "conversation_created", "message_created", "feedback_given"];
const NAMES = ["start", "end", "action", "user_email", "limit", "offset", "order", "after"];
const MAX_OFFSET = 9007199254740991n;

/** Judges a request to a service whose path is `home`. */
export function judge(request: HttpRequest, home: string, keys: KnownKeys): Verdict {
  const target = request.target.split("#")[0] ?? "";
  const mark = target.indexOf("?");
  const path = mark < 0 ? target : target.slice(0, mark);
  const there = [home, "/functions/v1/public-audit-log"].flatMap((place) => [place, `${place}/`]);
  if (!there.includes(path)) return { status: 404 };
  if (request.method !== "GET") return { status: 405 };

  const token = tokenOf(request.headers);
  const organizationId = keys.active.get(token);
  if (organizationId === undefined && token !== keys.exhausted) return { status: 401 };
  if (organizationId === undefined) return { status: 429 };
  const query = readQuery(mark < 0 ? "" : target.slice(mark + 1));
  return query ? { status: 200, organizationId, query } : { status: 400 };
}

/** Returns the token if there is one Authorization header and it has the right form, or nothing. */
function tokenOf(headers: [string, string][]): string {
  const [value, ...others] = headers
    .filter(([name]) => name.toLowerCase() === "authorization").map(([, value]) => value);
  if (value === undefined || others.length > 0) return "";
  const [scheme = "", ...words] = value.replaceAll(/^[ \t]+|[ \t]+$/g, "").split(" ");
  if (scheme.toLowerCase() !== "bearer") return "";
  return words.filter((word) => word !== "").length === 1 ? words.at(-1) ?? "" : "";
}

/** Returns the query if every parameter is right. */
function readQuery(text: string): ExpectedQuery | null {
  if (text.length > 12_288) return null;
  const values = new Map<string, string>();
  for (const pair of text.split("&")) {
    if (pair === "") continue;
    const equals = pair.indexOf("=");
    const name = decode(equals < 0 ? pair : pair.slice(0, equals));
    if (!NAMES.includes(name) || values.has(name)) return null;
    values.set(name, equals < 0 ? "" : decode(pair.slice(equals + 1)));
  }
  const start = values.get("start") ?? "";
  const end = values.get("end") ?? "";
  const action = values.get("action");
  const person = values.get("user_email");
  const limit = readNumber(values.get("limit") ?? "100");
  const offset = readNumber(values.get("offset") ?? "0");
  const right = isDay(start) && isDay(end) && start <= end &&
    (action === undefined || ACTIONS.includes(action)) &&
    (person === undefined || isPerson(person)) &&
    limit !== null && limit >= 1n && limit <= 1000n &&
    offset !== null && offset <= MAX_OFFSET &&
    ["asc", "desc"].includes(values.get("order") ?? "asc") &&
    // A random text is never a valid cursor, so only beginning is right.
    (!values.has("after") ||
      values.get("after") === "beginning" && !values.has("offset") && !values.has("order"));
  return right
    ? { start, end, action, person, limit: Number(limit), offset: Number(offset) }
    : null;
}

/** Says whether UTF-8 bytes are 1 to 320 characters without NUL. */
function isPerson(bytes: string): boolean {
  const text = new TextDecoder().decode(Uint8Array.from(bytes, (byte) => byte.charCodeAt(0)));
  return text.length > 0 && [...text].length <= 320 && !text.includes("\0");
}

/** Decodes as forms do, with one character for each byte. This is enough to compare with ASCII. */
function decode(text: string): string {
  return text.replaceAll("+", " ").replaceAll(
    /%([0-9a-fA-F]{2})/g,
    (_, hex) => String.fromCharCode(parseInt(hex, 16)),
  );
}

function readNumber(text: string): bigint | null {
  if (text === "") return null;
  for (const digit of text) if (digit < "0" || digit > "9") return null;
  return BigInt(text);
}

function isDay(text: string): boolean {
  if (text.length !== 10 || text[4] !== "-" || text[7] !== "-") return false;
  const parts = [text.slice(0, 4), text.slice(5, 7), text.slice(8)].map(readNumber);
  if (parts.includes(null)) return false;
  const [year = 0, month = 0, day = 0] = parts.map(Number);
  const leap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  const days = [31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1] ?? 0;
  return year >= 1 && day >= 1 && day <= days;
}
