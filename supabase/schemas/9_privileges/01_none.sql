-- Who may do what. SECURITY.md has the same as a table, which a test compares with the database.
--
-- Postgres lets everybody execute a new function, and older projects grant everything new to everybody. So all of
-- it is taken away first, each time. These files end every migration that adds a table or a function.

do $$
begin
  execute (
    select string_agg(format('alter table %s enable row level security', c.oid::regclass), ';') from pg_class c
    where c.relnamespace in ('audit_log'::regnamespace, 'audit_log_private'::regnamespace) and c.relkind = 'r'
  );
  -- Statistics (pg_stats) would show names, ids and addresses, also of who was deleted. Plans need those of actions.
  execute coalesce((
    select string_agg(format('alter table %s alter %I set statistics 0', c.oid::regclass, a.attname), ';')
    from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relnamespace in ('audit_log'::regnamespace, 'audit_log_private'::regnamespace) and c.relkind = 'r'
      and a.attnum > 0 and a.atttypid in ('text'::regtype, 'text[]'::regtype, 'jsonb'::regtype, 'inet'::regtype)
      and a.attname not in ('action', 'code') and coalesce(a.attstattarget, -1) <> 0
  ), '');
end $$;

revoke all on all tables in schema audit_log, audit_log_private from public, anon, authenticated, service_role;

revoke all on all sequences in schema audit_log, audit_log_private from public, anon, authenticated, service_role;

revoke all on all functions in schema audit_log, audit_log_private from public, anon, authenticated, service_role;
