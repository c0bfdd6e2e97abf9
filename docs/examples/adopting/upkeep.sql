-- Runs the upkeep each night (UTC): several times, because a hosted project ends a statement after two minutes, and the
-- next run continues where that one stopped.
create extension if not exists pg_cron with schema pg_catalog;
select cron.schedule(
  'audit_log_upkeep', '15,30,45 0-5 * * *',
  'do $$ begin while audit_log_private.run_upkeep() loop commit; end loop; end $$'
);
-- pg_cron keeps a row of each run for ever. Those that a restart interrupted have no end.
select cron.schedule(
  'audit_log_upkeep_history', '50 5 * * *',
  'delete from cron.job_run_details d using cron.job j where j.jobid = d.jobid '
  'and j.jobname like ''audit_log_upkeep%'' and d.runid <= ('
  'select max(o.runid) from cron.job_run_details o where o.end_time < now() - interval ''30 days'')'
);
