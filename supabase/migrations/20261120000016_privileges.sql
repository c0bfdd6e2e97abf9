-- Who may do what. SECURITY.md has the same as a table, which a test compares with the database.
--
-- Postgres lets everybody execute a new function, and older projects grant everything new to everybody. So all of
-- it is taken away first. A later migration that adds a table or a function ends with these statements, too.

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
end $$;

revoke all on all tables in schema audit_log, audit_log_private from public, anon, authenticated, service_role;
revoke all on all sequences in schema audit_log, audit_log_private from public, anon, authenticated, service_role;
revoke all on all functions in schema audit_log, audit_log_private from public, anon, authenticated, service_role;

-- Not before: a push that stops halfway opens nothing.
grant usage on schema audit_log, audit_log_private to authenticated, service_role;

grant select, insert, update, delete on audit_log.organization_members to service_role;
-- Not keep_days: whoever has the secret key could have the log deleted.
grant select, delete, insert (id, name, external_id, logs_key_events, created_at),
  update (id, name, external_id, logs_key_events, created_at) on audit_log.organizations to service_role;
grant select on audit_log.actions to service_role;
grant select, insert (id, organization_id, created_at, action, user_email, agent_name, data)
  on audit_log.audit_entries to service_role;

-- transaction_number and new_entry_id are defaults.
grant execute on function audit_log.record_entries, audit_log.public_audit_log, audit_log.person_left,
  audit_log_private.transaction_number, audit_log_private.new_entry_id, audit_log_private.organization_ids
to service_role;

-- What people call: for each of these functions its namesake in audit_log.
do $$
declare
  call record;
begin
  for call in
    select p.*, array_to_string(p.proargnames, ', ') as names from pg_proc p
    where p.pronamespace = 'audit_log_private'::regnamespace and p.proname in (
      'list_organizations', 'list_api_keys', 'create_api_key', 'rotate_api_key', 'revoke_api_key', 'confirm_api_key',
      'api_key_usage', 'read_audit_log', 'read_entry', 'find_persons', 'daily_entry_counts', 'list_seals', 'latest_seal',
      'list_actions'
    )
  loop
    execute format(
      'create or replace function audit_log.%I(%s) returns %s language sql %s set search_path = pg_catalog, pg_temp as %L',
      call.proname, pg_get_function_arguments(call.oid), call.prorettype::regtype,
      case call.provolatile when 's' then 'stable' else 'volatile' end,
      format('select audit_log_private.%I(%s)', call.proname, call.names)
    );
    execute format('comment on function audit_log.%I is %L', call.proname, obj_description(call.oid, 'pg_proc'));
    execute format('revoke all on function audit_log.%I from public, anon, authenticated, service_role', call.proname);
    execute format('grant execute on function audit_log.%1$I, audit_log_private.%1$I to authenticated', call.proname);
  end loop;
end $$;
