-- Written by deno task migration from supabase/schemas: edit the files there.

-- From supabase/schemas/9_privileges/01_none.sql.

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

-- From supabase/schemas/9_privileges/02_log.sql.

-- What the platform's server writes.

-- Not before: a push that stops halfway opens nothing.
grant usage on schema audit_log, audit_log_private to authenticated, service_role;

grant select, insert, update, delete on audit_log.organization_members to service_role;

-- Whoever has the secret key must not change what is logged of organizations, or how long it is kept.
grant select on audit_log.organizations, audit_log.actions to service_role;

grant select, insert (id, organization_id, created_at, action, user_email, agent_name, data)
  on audit_log.audit_entries to service_role;

-- transaction_number and new_entry_id are defaults.
grant execute on function audit_log.organization_uuid, audit_log.record_entries,
  audit_log_private.transaction_number, audit_log_private.new_entry_id
to service_role;

-- From supabase/schemas/9_privileges/03_api.sql.

-- The Edge Function answers requests. People manage keys, and so does the platform's server.

grant execute on function audit_log.public_audit_log to service_role;

grant execute on function audit_log.list_api_keys, audit_log_private.list_api_keys,
  audit_log.create_api_key, audit_log_private.create_api_key,
  audit_log.rotate_api_key, audit_log_private.rotate_api_key,
  audit_log.revoke_api_key, audit_log_private.revoke_api_key
to authenticated, service_role;

grant execute on function audit_log.api_key_usage, audit_log_private.api_key_usage to authenticated;

-- From supabase/schemas/9_privileges/04_console.sql.

-- What people call in the console, and its namesakes, which it calls.

grant execute on function audit_log.list_organizations, audit_log_private.list_organizations,
  audit_log.read_audit_log, audit_log_private.read_audit_log,
  audit_log.read_entry, audit_log_private.read_entry,
  audit_log.find_persons, audit_log_private.find_persons,
  audit_log.daily_entry_counts, audit_log_private.daily_entry_counts,
  audit_log.list_actions, audit_log_private.list_actions,
  audit_log.list_seals, audit_log_private.list_seals
to authenticated;

-- From supabase/schemas/9_privileges/05_running.sql.

-- The platform's server says who has left. The rest is for the owner, or for the role of a monitoring system.

grant execute on function audit_log.person_left to service_role;
