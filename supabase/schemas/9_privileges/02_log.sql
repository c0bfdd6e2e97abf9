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
