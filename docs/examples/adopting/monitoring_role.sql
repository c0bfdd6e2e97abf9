-- A role for a monitoring system: it may call health() and metrics_text(), and nothing else. It cannot sign in until
-- you give it a password, in the SQL editor and not in a migration: alter role audit_log_monitor login password '…'
do $$ begin
  if not exists (select from pg_roles where rolname = 'audit_log_monitor') then
    create role audit_log_monitor;
  end if;
end $$;
grant usage on schema audit_log_private to audit_log_monitor;
grant execute on function audit_log_private.health, audit_log_private.metrics_text to audit_log_monitor;
