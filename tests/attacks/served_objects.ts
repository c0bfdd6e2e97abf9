import { API_URL, SECRET_KEY, type Sql } from "../helpers.ts";

/** A table, a view, or whatever else of that kind there may come to be. */
export interface ServedTable {
  name: string;
  columns: Parameter[];
}

export interface ServedFunction {
  name: string;
  /** Those without a default, and all texts and ids. */
  parameters: Parameter[];
  writes: boolean;
}

/** A column, or a parameter of a function. */
export interface Parameter {
  name: string;
  type: string;
}

/** Everything in the schema that the Data API serves, whoever may use it. */
export interface ServedObjects {
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
