import type { Query, Sql } from "../helpers/mod.ts";

interface Parameter {
  name: string;
  type: string;
  /** Those of a composite type. */
  fields: (keyof Query)[];
}

interface ServedFunction {
  name: string;
  /** All parameters that are required, and all others that are a text or an id. */
  parameters: Parameter[];
  writes: boolean;
  /** Whether signed-in people may call it. */
  isForPeople: boolean;
}

/** Asks the catalog for the functions that the Data API serves, so that new ones are attacked at once. */
export async function servedFunctions(sql: Sql): Promise<ServedFunction[]> {
  return [
    ...await sql<ServedFunction[]>`
      select p.proname as name, p.provolatile = 'v' as writes,
        has_function_privilege('authenticated', p.oid, 'execute') as "isForPeople", (
        select coalesce(json_agg(json_build_object(
          'name', p.proargnames[i], 'type', t.typname,
          'fields', array(select attname from pg_attribute where attrelid = t.typrelid order by attnum)
        )), '[]')
        from unnest(p.proargtypes::oid[]) with ordinality as a (type, i) join pg_type t on t.oid = a.type
        where i <= p.pronargs - p.pronargdefaults or t.typname in ('text', 'uuid')
      ) as parameters
      from pg_proc p
      where p.pronamespace = 'audit_log'::regnamespace and p.prokind = 'f' and p.prorettype <> 'trigger'::regtype
      order by p.proname`,
  ];
}

/** What an attacker supposes to exist. */
export type Guess = Record<"email" | "organizationId" | "apiKeyId" | "entryId", string>;

export interface Attack {
  path: string;
  init?: RequestInit & { headers: Record<string, string> } | undefined;
  /** Whether it may succeed, as long as both guesses get the same answer. */
  mayAnswer?: boolean;
}

/** Functions without an organization: they answer about the caller. */
export const ABOUT_ONESELF = ["list_organizations"];

export const DAY = "2026-03-01";
const COUNTS = ["exact", "planned", "estimated"].map((count) => ({
  headers: { Prefer: `count=${count}` },
}));
const FORMS = [
  "application/vnd.pgrst.plan",
  "application/vnd.pgrst.plan+json",
  'application/vnd.pgrst.plan+text; for="application/json"; options=analyze|verbose|settings|buffers',
  "application/vnd.pgrst.object+json",
].map((Accept) => ({ headers: { Accept } }));

function queryOfGuess({ email }: Guess): Query {
  return { start_date: DAY, end_date: DAY, user_email: email };
}

/** Returns what an attacker sends for a parameter, as text. */
export function value({ name, type, fields }: Parameter, guess: Guess): string {
  switch (type) {
    case "uuid":
      if (name === "id") return guess.entryId;
      return name.includes("api_key") ? guess.apiKeyId : guess.organizationId;
    case "date":
      return DAY;
    case "text":
      if (name === "organization_id") return guess.organizationId;
      return /_at$/.test(name) ? DAY : guess.email;
    case "page_query":
      return `(${fields.map((field) => queryOfGuess(guess)[field] ?? "")})`;
    case "int4":
      return "1";
    case "bool":
      return "true";
    case "json":
    case "jsonb":
      return JSON.stringify(
        name === "entries"
          ? [{ organization_id: guess.organizationId, id: guess.entryId }]
          : queryOfGuess(guess),
      );
    default:
      throw new Error(`${name} is ${type}: say here what an attacker sends for it`);
  }
}

export function jsonValue(parameter: Parameter, guess: Guess): string | object {
  if (parameter.type === "page_query") return queryOfGuess(guess);
  const text = value(parameter, guess);
  return parameter.type.startsWith("json") ? JSON.parse(text) : text;
}

export function values<T>(
  parameters: Parameter[],
  guess: Guess,
  valueOf: (parameter: Parameter, guess: Guess) => T,
): Record<string, T> {
  return Object.fromEntries(parameters.map((each) => [each.name, valueOf(each, guess)]));
}

export function json(body: object) {
  const headers = { "Content-Type": "application/json" };
  return { method: "POST", headers, body: JSON.stringify(body) };
}

/** Calls a function, and filters, orders, counts and explains what it returns. */
function attacksOnFunction(
  { name, parameters, writes }: ServedFunction,
  guess: Guess,
  { own = {}, mayAnswer }: { own?: Record<string, string>; mayAnswer: boolean },
): Attack[] {
  const path = `rpc/${name}`;
  const given = new URLSearchParams({ ...values(parameters, guess, value), ...own });
  const called = `${path}?${given}`;
  const body = { ...values(parameters, guess, jsonValue), ...own };
  const filters = ["user_email", "pgrst_scalar->>user_email", "pgrst_scalar->0->>name"]
    .flatMap((field) => [
      `${field}=eq.${guess.email}`,
      `${field}=lt.${guess.email}`,
      `order=${field}`,
      `select=${field}::int`,
    ]);
  return [
    // Leaves out calls that write to the attacker's own organization, because they may succeed.
    ...(writes && mayAnswer ? [] : [{ path, init: json(body), mayAnswer }]),
    ...[...COUNTS, ...FORMS].map((init) => ({ path: called, init, mayAnswer })),
    ...filters.map((filter) => ({ path: `${called}&${filter}`, init: COUNTS[1], mayAnswer })),
    // May succeed: HEAD needs no result, so Postgres need not run a function that only reads.
    ...COUNTS.map((init) => ({ path: called, init: { ...init, method: "HEAD" }, mayAnswer: true })),
  ];
}

/** Lists all attacks with a guess, by somebody who may administer an organization. */
export async function attacksOf(
  sql: Sql,
  organizationId: string | undefined,
  guess: Guess,
): Promise<Attack[]> {
  // tests/attacks/permissions_test.ts proves that people have no privilege on any table.
  return (await servedFunctions(sql)).flatMap((each) => {
    const mayAnswer = ABOUT_ONESELF.includes(each.name);
    const attacks = attacksOnFunction(each, guess, { mayAnswer });
    const takesOne = each.parameters.some(({ name }) => name === "organization_id");
    if (!organizationId || !takesOne) return attacks;
    const own = { organization_id: organizationId };
    return [...attacks, ...attacksOnFunction(each, guess, { own, mayAnswer: true })];
  });
}
