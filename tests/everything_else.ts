import type postgres from "postgres";

/** Lists everything in the database outside our two schemas, one line of text for each thing. */
export async function everythingElse(run: postgres.ISql): Promise<string[]> {
  const rows = await run<{ thing: string }[]>`
    with others as (
      select oid, nspname, nspacl from pg_namespace
      where nspname not in ('audit_log', 'audit_log_private') and nspname !~ '^pg_(toast|temp)'
    )
    select thing from (
      select concat('schema ', nspname, nspacl) as thing from others
      union all
      select concat('relation ', c.oid::regclass, c.relkind, c.relacl, c.relowner, c.relrowsecurity, c.reloptions)
      from pg_class c join others o on o.oid = c.relnamespace
      union all
      select concat('column ', a.attrelid::regclass, '.', a.attname, a.attacl, a.atttypid, a.attnotnull)
      from pg_attribute a join pg_class c on c.oid = a.attrelid join others o on o.oid = c.relnamespace
      union all
      select concat('function ', p.oid::regprocedure, p.proacl, p.prosecdef, p.proconfig, md5(p.prosrc))
      from pg_proc p join others o on o.oid = p.pronamespace
      union all
      select concat('type ', t.oid::regtype, t.typacl) from pg_type t join others o on o.oid = t.typnamespace
      union all
      select concat('trigger ', t.tgrelid::regclass, t.tgname, t.tgenabled)
      from pg_trigger t join pg_class c on c.oid = t.tgrelid join others o on o.oid = c.relnamespace
      union all
      select concat('constraint ', c.conname, c.conrelid::regclass)
      from pg_constraint c join others o on o.oid = c.connamespace
      union all
      select concat('policy ', p.polname, p.polrelid::regclass)
      from pg_policy p join pg_class c on c.oid = p.polrelid join others o on o.oid = c.relnamespace
      union all
      select concat('event trigger ', evtname, evtenabled) from pg_event_trigger
      union all
      select concat('default privileges ', defaclrole, defaclnamespace, defaclobjtype, defaclacl) from pg_default_acl
      union all
      select concat('role ', rolname, rolconfig, rolsuper, rolinherit, rolbypassrls) from pg_roles
      union all
      select concat('membership ', roleid, member, admin_option) from pg_auth_members
      union all
      select concat('extension ', extname, extnamespace, extversion) from pg_extension
      union all
      select concat('setting ', setdatabase, setrole, setconfig) from pg_db_role_setting
      union all
      select concat('database ', datname, datacl) from pg_database
    ) as things
    order by thing`;
  return rows.map(({ thing }) => thing);
}
