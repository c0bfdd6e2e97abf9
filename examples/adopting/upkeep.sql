-- Runs the upkeep each night (UTC): several times, because a hosted project ends a statement after two minutes, and the
-- next run goes on where that one stopped.
create extension if not exists pg_cron with schema pg_catalog;
select cron.schedule(
  'audit_log_upkeep', '15,30,45 0-5 * * *',
  'do $$ begin while audit_log_private.run_upkeep() loop commit; end loop; end $$'
);
