import type postgres from "postgres";

const SCHEMAS = `(select oid from pg_namespace
  where nspname not in ('audit_log', 'audit_log_private') and nspname !~ '^pg_(toast|temp)')`;
const RELATIONS = `(select oid from pg_class where relnamespace in ${SCHEMAS})`;

/** For each kind of thing: the columns that describe it, and the catalogue that has it. */
const THINGS = {
  "schema": ["nspname, nspacl", `pg_namespace where oid in ${SCHEMAS}`],
  "relation": [
    "oid::regclass, relkind, relacl, relowner, relrowsecurity, reloptions",
    `pg_class where relnamespace in ${SCHEMAS}`,
  ],
  "column": [
    "attrelid::regclass, '.', attname, attacl, atttypid, attnotnull",
    `pg_attribute where attrelid in ${RELATIONS}`,
  ],
  "function": [
    "oid::regprocedure, proacl, prosecdef, proconfig, md5(prosrc)",
    `pg_proc where pronamespace in ${SCHEMAS}`,
  ],
  "type": ["oid::regtype, typacl", `pg_type where typnamespace in ${SCHEMAS}`],
  "trigger": ["tgrelid::regclass, tgname, tgenabled", `pg_trigger where tgrelid in ${RELATIONS}`],
  "constraint": ["conname, conrelid::regclass", `pg_constraint where connamespace in ${SCHEMAS}`],
  "policy": ["polname, polrelid::regclass", `pg_policy where polrelid in ${RELATIONS}`],
  "event trigger": ["evtname, evtenabled", "pg_event_trigger"],
  "default privileges": ["defaclrole, defaclnamespace, defaclobjtype, defaclacl", "pg_default_acl"],
  "role": ["rolname, rolconfig, rolsuper, rolinherit, rolbypassrls", "pg_roles"],
  "membership": ["roleid, member, admin_option", "pg_auth_members"],
  "extension": ["extname, extnamespace, extversion", "pg_extension"],
  "setting": ["setdatabase, setrole, setconfig", "pg_db_role_setting"],
  "database": ["datname, datacl", "pg_database"],
};

/** Lists everything in the database outside our two schemas, one line of text for each thing. */
export async function everythingElse(run: postgres.ISql): Promise<string[]> {
  const queries = Object.entries(THINGS)
    .map(([kind, [what, where]]) => `select concat('${kind} ', ${what}) as thing from ${where}`);
  const rows = await run.unsafe(`${queries.join(" union all ")} order by thing`);
  return rows.map(({ thing }) => thing);
}
