-- Makes a copy of the database safe for staging: no API key opens it, and no stream of it sends anything, nor has the
-- secrets for it. Run it as the owner before you expose audit_log. It changes everything or nothing, and may be
-- repeated.
--
-- It refuses to run where streams run, which is the original. A snapshot of a disk that was started as it was looks
-- like its original. There, run this first: update audit_log_private.stream_home set home = 'a copy' where true
do $$
begin
  if audit_log_private.is_stream_home() then
    raise exception 'This is the original, not a copy. Nothing was changed.'
      using errcode = 'object_not_in_prerequisite_state',
      hint = 'Is it a copy after all? Read the top of staging.sql.';
  end if;
  update audit_log_private.api_keys set revoked_at = clock_timestamp() where revoked_at is null;
  update audit_log_private.streams s
  set paused_at = coalesce(s.paused_at, clock_timestamp()), paused_by = coalesce(s.paused_by, 'staging.sql'),
    paused_why = coalesce(s.paused_why, 'a copy for staging'),
    sealed = null, sealed_before = null, lease = null, leased_until = null
  where true;
  update audit_log_private.stream_home set project_url = null, bell_address = null, bell_word = null where true;
  if to_regclass('cron.job') is not null then
    execute 'select cron.unschedule(j.jobid) from cron.job j where starts_with(j.jobname, ''audit_log_streams'')';
  end if;
end $$;
