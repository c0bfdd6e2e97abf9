import { API_URL, pageQuery, SECRET_KEY, type Sql } from "../helpers.ts";

/** A table, a view, or whatever else of that kind there may come to be. */
interface ServedTable {
  name: string;
  columns: Parameter[];
}

interface ServedFunction {
  name: string;
  /** Those without a default, and all texts and ids. */
  parameters: Parameter[];
  writes: boolean;
}

/** A column, or a parameter of a function. */
interface Parameter {
  name: string;
  type: string;
}

/** Everything in the schema that the Data API serves, whoever may use it. */
interface ServedObjects {
  tables: ServedTable[];
  functions: ServedFunction[];
}

/** Asks the catalog, so that what is new is there at once. */
export async function servedObjects(sql: Sql): Promise<ServedObjects> {
  const tables = await sql<ServedTable[]>`
    select c.relname as name, json_agg(json_build_object('name', a.attname, 'type', t.typname)) as columns
    from pg_class c
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    join pg_type t on t.oid = a.atttypid
    where c.relnamespace = 'audit_log'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f')
    group by c.relname order by c.relname`;
  const functions = await sql<ServedFunction[]>`
    select p.proname as name, p.provolatile = 'v' as writes, (
      select coalesce(json_agg(json_build_object('name', p.proargnames[i], 'type', t.typname)), '[]')
      from unnest(p.proargtypes::oid[]) with ordinality as a (type, i) join pg_type t on t.oid = a.type
      where i <= p.pronargs - p.pronargdefaults or t.typname in ('text', 'uuid')
    ) as parameters
    from pg_proc p
    where p.pronamespace = 'audit_log'::regnamespace and p.prokind = 'f' and p.prorettype <> 'trigger'::regtype
    order by p.proname`;
  return { tables: [...tables], functions: [...functions] };
}

/** The paths of a schema that the Data API says it serves, to the platform, which sees most. */
export async function documentedPaths(schema: string): Promise<string[]> {
  const headers = { apikey: SECRET_KEY, "Accept-Profile": schema };
  const response = await fetch(`${API_URL}/rest/v1/`, { headers });
  const { paths } = await response.json();
  return Object.keys(paths).filter((path) => path !== "/");
}

/** What an attacker supposes that there is. */
export interface Guess {
  email: string;
  organizationId: string;
  apiKeyId: string;
  entryId: string;
}

/** One request, as it is made with one guess. */
export interface Attack {
  path: string;
  init?: RequestInit | undefined;
  /** Whether any answer is right that is the same for both guesses: about what is the attacker's own. */
  mayAnswer?: boolean;
}

/** Functions that take no organization: they answer about whoever asks. */
export const ABOUT_ONESELF = ["list_organizations"];

export const DAY = "2026-03-01";
const COUNTS = ["exact", "planned", "estimated"];
const PLANS = [
  "application/vnd.pgrst.plan",
  "application/vnd.pgrst.plan+json",
  'application/vnd.pgrst.plan+text; for="application/json"; options=analyze|verbose|settings|buffers',
];

/** What is sent for a parameter, as text. */
export function value({ name, type }: Parameter, guess: Guess): string {
  switch (type) {
    case "uuid":
      if (name === "id") return guess.entryId;
      return name.includes("api_key") ? guess.apiKeyId : guess.organizationId;
    case "date":
    case "timestamptz":
      return DAY;
    case "text":
      return guess.email;
    case "page_query":
      return `(${DAY},${DAY},,${guess.email},,,,)`;
    case "jsonb":
      return JSON.stringify([{ organization_id: guess.organizationId, id: guess.entryId }]);
    default:
      throw new Error(`${name} is ${type}: say here what an attacker sends for it`);
  }
}

/** What is sent for a parameter in JSON. */
export function jsonValue(parameter: Parameter, guess: Guess): string | object {
  if (parameter.type === "page_query") return pageQuery(DAY, DAY, { user_email: guess.email });
  const text = value(parameter, guess);
  return parameter.type === "jsonb" ? JSON.parse(text) : text;
}

/** The conditions by which a column can be guessed at, as PostgREST writes them. */
export function conditions(column: Parameter, guess: Guess): string[] {
  const { name, type } = column;
  const { email, organizationId, entryId } = guess;
  if (type === "uuid") {
    const ids = name === "id" ? [organizationId, entryId] : [organizationId];
    return ids.map((id) => `${name}=eq.${id}`);
  }
  if (type !== "text") return [`${name}=not.is.null`];
  return ["eq.", "lt.", "like.*", "fts."].map((operator) => `${name}=${operator}${email}`);
}

/** Ways of reading, counting, ordering, joining and changing what meets a condition on a table. */
function attacksOnTable(
  { name, columns }: ServedTable,
  others: ServedTable[],
  guess: Guess,
): Attack[] {
  const ofColumn = (column: Parameter, condition: string): Attack[] => {
    const path = `${name}?${condition}`;
    const returned = { Prefer: "return=representation,count=exact" };
    return [
      ...COUNTS.flatMap((count) => {
        const headers = { Prefer: `count=${count}` };
        return [
          { path, init: { headers } },
          { path: `${path}&select=${column.name}&limit=0`, init: { headers, method: "HEAD" } },
        ];
      }),
      ...PLANS.map((Accept) => ({ path, init: { headers: { Accept } } })),
      { path: `${path}&order=${column.name}.desc&limit=1` },
      { path, init: { method: "DELETE", headers: returned } },
      ...others.map((other) => ({
        path: `${other.name}?select=*,${name}!inner(*)&${name}.${condition}`,
        init: { headers: { Prefer: "count=planned" } },
      })),
    ];
  };
  return columns.flatMap((column) =>
    conditions(column, guess).flatMap((condition) => ofColumn(column, condition))
  );
}

/** A body, and how it is sent. */
export function json(body: object) {
  const headers = { "Content-Type": "application/json" };
  return { method: "POST", headers, body: JSON.stringify(body) };
}

interface FunctionAttackOptions {
  name: string;
  /** What it is called with, in the address and in a body. */
  given: Record<string, string>;
  body: object;
  writes: boolean;
  mayAnswer: boolean;
}

/** Calls of a function, and filters, orders, counts and plans of what it returns. */
function attacksOnFunction(
  { name, given, body, writes, mayAnswer }: FunctionAttackOptions,
  { email }: Guess,
): Attack[] {
  const path = `rpc/${name}`;
  const called = `${path}?${new URLSearchParams(given)}`;
  const attacks: Attack[] = [
    // With an organization of one's own, a call that writes may succeed.
    ...(!writes || !mayAnswer ? [{ path, init: json(body) }] : []),
    ...COUNTS.map((count) => ({ path: called, init: { headers: { Prefer: `count=${count}` } } })),
    ...[...PLANS, "application/vnd.pgrst.object+json"].map((Accept) => ({
      path: called,
      init: { headers: { Accept } },
    })),
    ...["user_email", "pgrst_scalar->>user_email", "pgrst_scalar->0->>name"].flatMap((result) =>
      [`${result}=eq.${email}`, `${result}=lt.${email}`, `order=${result}`, `select=${result}::int`]
        .map((suffix) => ({
          path: `${called}&${suffix}`,
          init: { headers: { Prefer: "count=planned" } },
        }))
    ),
  ];
  // Nobody needs the result, so Postgres need not call a function that only reads: it may answer.
  const unneeded = COUNTS.map((count): Attack => ({
    path: called,
    init: { method: "HEAD", headers: { Prefer: `count=${count}` } },
    mayAnswer: true,
  }));
  return [...attacks.map((attack) => ({ ...attack, mayAnswer })), ...unneeded];
}

/**
 * Every attack with a guess on what the Data API serves now, by an attacker who may have an organization
 * of their own; `only` on what has this name.
 */
export async function attacksOf(
  sql: Sql,
  organizationId: string | undefined,
  guess: Guess,
  only?: string,
): Promise<Attack[]> {
  const { tables, functions } = await servedObjects(sql);
  const isMeant = ({ name }: { name: string }) => !only || name === only;
  return [
    ...tables.filter(isMeant).flatMap((table) =>
      attacksOnTable(table, tables.filter((other) => other !== table), guess)
    ),
    ...functions.filter(isMeant).flatMap(({ name, parameters, writes }) => {
      const called = (own: { organization_id?: string }, mayAnswer: boolean) => {
        const given = { ...values(parameters, guess, value), ...own };
        const body = { ...values(parameters, guess, jsonValue), ...own };
        return attacksOnFunction({ name, given, body, writes, mayAnswer }, guess);
      };
      const attacks = called({}, ABOUT_ONESELF.includes(name));
      if (!organizationId || !parameters.some(({ name }) => name === "organization_id")) {
        return attacks;
      }
      return [...attacks, ...called({ organization_id: organizationId }, true)];
    }),
  ];
}

/** What a function is called with, by the names of its parameters. */
export function values<T>(
  parameters: Parameter[],
  guess: Guess,
  valueOf: (parameter: Parameter, guess: Guess) => T,
): Record<string, T> {
  return Object.fromEntries(parameters.map((each) => [each.name, valueOf(each, guess)]));
}
