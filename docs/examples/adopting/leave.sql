-- Permanently deletes the audit log: all entries, keys and seals, also of organizations on hold, your custom_ functions
-- with the triggers that call them, the jobs of pg_cron, and the role of monitoring_role.sql. Export first
-- (docs/install.md, "Leave").
drop schema audit_log, audit_log_private cascade;
drop role if exists audit_log_monitor;
do $$ begin
  if to_regclass('cron.job') is not null then
    delete from cron.job_run_details d using cron.job j
    where j.jobid = d.jobid and starts_with(j.jobname, 'audit_log_');
    perform cron.unschedule(j.jobid) from cron.job j where starts_with(j.jobname, 'audit_log_');
  end if;
end $$;
