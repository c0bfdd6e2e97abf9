-- Who may do what. SECURITY.md has the same as a table, which a test compares with the database.
--
-- Postgres lets everybody execute a new function, and older projects grant everything new to everybody. So all of
-- it is taken away first, each time. This file ends every migration that adds a table or a function.

do $$
declare
  made record;
begin
  for made in
    select c.oid::regclass as name from pg_class c
    where c.relnamespace in ('audit_log'::regnamespace, 'audit_log_private'::regnamespace) and c.relkind = 'r'
  loop
    execute format('alter table %s enable row level security', made.name);
  end loop;
  -- Statistics (pg_stats) would show names, ids and addresses of customers and their people, also of those that were
  -- deleted. Plans need only those of actions.
  for made in
    select c.oid::regclass as name, a.attname as column_name from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relnamespace in ('audit_log'::regnamespace, 'audit_log_private'::regnamespace) and c.relkind = 'r'
      and a.attnum > 0 and a.atttypid in ('text'::regtype, 'text[]'::regtype, 'jsonb'::regtype, 'inet'::regtype)
      and a.attname not in ('action', 'code') and coalesce(a.attstattarget, -1) <> 0
  loop
    execute format('alter table %s alter %I set statistics 0', made.name, made.column_name);
  end loop;
end $$;

revoke all on all tables in schema audit_log, audit_log_private from public, anon, authenticated, service_role;

revoke all on all sequences in schema audit_log, audit_log_private from public, anon, authenticated, service_role;

revoke all on all functions in schema audit_log, audit_log_private from public, anon, authenticated, service_role;

-- Not before: a push that stops halfway opens nothing.
grant usage on schema audit_log, audit_log_private to authenticated, service_role;

grant select, insert, update, delete on audit_log.organization_members to service_role;

-- Not keep_days, and not delete: whoever has the secret key could delete the log, or an organization's keys. The
-- trigger refuse_to_others lets it change names only.
grant select, insert (id, name, external_id, logs_key_events, created_at),
  update (id, name, external_id, logs_key_events, created_at) on audit_log.organizations to service_role;

grant select on audit_log.actions to service_role;

grant select, insert (id, organization_id, created_at, action, user_email, agent_name, data)
  on audit_log.audit_entries to service_role;

-- transaction_number and new_entry_id are defaults.
grant execute on function audit_log.record_entries, audit_log.public_audit_log, audit_log.person_left,
  audit_log.take_batch, audit_log.recut_batch, audit_log.settle_batch,
  audit_log_private.transaction_number, audit_log_private.new_entry_id
to service_role;

-- What people call, and its namesakes, which it calls. The platform's server manages keys, too.
do $$
declare
  for_server constant text[] := '{list_api_keys,create_api_key,rotate_api_key,revoke_api_key}';
  name text;
begin
  foreach name in array for_server || '{list_organizations,api_key_usage,read_audit_log,read_entry,find_persons,
    daily_entry_counts,list_actions,list_seals,latest_seal,list_streams,read_stream,create_stream,change_stream,
    retry_stream,pause_stream,resume_stream,delete_stream}'
  loop
    execute format(
      'grant execute on function audit_log.%1$I, audit_log_private.%1$I to %2$s', name,
      case when name = any (for_server) then 'authenticated, service_role' else 'authenticated' end
    );
  end loop;
end $$;
