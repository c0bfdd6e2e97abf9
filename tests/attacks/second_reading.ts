import { instantOf, PARAMETERS } from "./parameters.ts";

// Reads the contract (docs/api.md) a second time, to judge what the service answers: see parameters.ts.

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
  | { status: 200; organizationId: string; query: Query };

/** The values of the parameters that are given or have a default, by name. */
type Query = Map<string, string>;

/** Judges a request to a service whose path is `home`. */
export function judge({ method, url, headers }: Request, home: string, keys: KnownKeys): Verdict {
  const target = url.slice(url.indexOf("/", "http://".length)).split("#")[0] ?? "";
  const mark = target.indexOf("?");
  const path = mark < 0 ? target : target.slice(0, mark);
  const there = [home, "/functions/v1/public-audit-log"].flatMap((place) => [place, `${place}/`]);
  if (!there.includes(path)) return { status: 404 };
  if (method !== "GET") return { status: 405 };

  const token = tokenOf(headers.get("Authorization") ?? "");
  const organizationId = keys.active.get(token);
  if (organizationId === undefined && token !== keys.exhausted) return { status: 401 };
  if (organizationId === undefined) return { status: 429 };
  const query = readQuery(mark < 0 ? "" : target.slice(mark + 1));
  return query ? { status: 200, organizationId, query } : { status: 400 };
}

/** Returns the token of an Authorization header of the right form, or nothing. */
function tokenOf(header: string): string {
  const [scheme = "", ...words] = header.replaceAll(/^[ \t]+|[ \t]+$/g, "").split(" ");
  if (scheme.toLowerCase() !== "bearer") return "";
  return words.filter((word) => word !== "").length === 1 ? words.at(-1) ?? "" : "";
}

/** Returns the query if every parameter is right. */
function readQuery(text: string): Query | null {
  if (text.length > 12_288) return null;
  const query: Query = new Map();
  for (const pair of text.split("&")) {
    if (pair === "") continue;
    const equals = pair.indexOf("=");
    const name = decode(equals < 0 ? pair : pair.slice(0, equals));
    if (!Object.hasOwn(PARAMETERS, name) || query.has(name)) return null;
    query.set(name, equals < 0 ? "" : decode(pair.slice(equals + 1)));
  }
  if (query.has("after")) {
    if (query.get("offset")?.replaceAll("0", "") || query.get("order") === "desc") return null;
  }
  if (["since", "until", "after"].some((name) => query.has(name))) {
    if (!query.has("start")) query.set("start", "0001-01-01");
    if (!query.has("end")) query.set("end", "9999-12-31");
  }
  for (const [name, parameter] of Object.entries(PARAMETERS)) {
    const value = query.get(name) ?? parameter.default;
    if (value === undefined) continue;
    if (!parameter.isRight(value)) return null;
    query.set(name, value);
  }
  const [start, end] = [`${query.get("start")}T00:00:00Z`, `${query.get("end")}T23:59:59.999999Z`];
  const [since, until] = [query.get("since") ?? start, query.get("until") ?? end];
  const inOrder = [[start, end], [since, until], [start, until], [since, end]] as const;
  return inOrder.every(([one, other]) => isBefore(one, other)) ? query : null;
}

function isBefore(one: string, other: string): boolean {
  return instantOf(one)! < instantOf(other)!;
}

/** Decodes as forms do, with one character for each byte. This is enough to compare with ASCII. */
function decode(text: string): string {
  return text.replaceAll("+", " ").replaceAll(
    /%([0-9a-fA-F]{2})/g,
    (_, hex) => String.fromCharCode(parseInt(hex, 16)),
  );
}
