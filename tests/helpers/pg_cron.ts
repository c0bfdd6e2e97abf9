/** Stands in for pg_cron, which this Postgres does not have: the parts that we use, and a job of somebody else's. */
export const PG_CRON = `
  create schema cron;
  create table cron.job (
    jobid bigint generated always as identity, jobname text unique, schedule text, command text
  );
  create table cron.job_run_details (
    jobid bigint, runid bigint generated always as identity, status text, return_message text,
    start_time timestamptz, end_time timestamptz
  );
  create function cron.schedule(text, text, text) returns bigint language sql as
    'insert into cron.job (jobname, schedule, command) values ($1, $2, $3)
      on conflict (jobname) do update set schedule = $2, command = $3 returning jobid';
  create function cron.unschedule(bigint) returns boolean language sql as
    'delete from cron.job where jobid = $1 returning true';
  select cron.schedule('theirs', '* * * * *', 'select 1');`;

/** Runs that pg_cron recorded, of all jobs. A restart interrupted the second and the fourth. */
export const RUNS = `
  insert into cron.job_run_details (jobid, end_time)
  select j.jobid, now() - r.age
  from (values (1, interval '40 days'), (2, null), (3, interval '31 days'), (4, null), (5, interval '1 hour'))
    as r (n, age), cron.job j
  order by r.n`;

/** How many runs are left: of our jobs, and of theirs. */
export const RUNS_LEFT = `
  select count(*) filter (where starts_with(jobname, 'audit_log_'))::int as ours,
    count(*) filter (where jobname is null or not starts_with(jobname, 'audit_log_'))::int as theirs
  from cron.job_run_details left join cron.job using (jobid)`;
