-- The Edge Function audit-log-streams takes a batch under a lease, sends it, and settles it. The cursor moves when a
-- batch is confirmed, and only for the holder of the lease: so a batch may be sent twice, and nothing is skipped.

create function audit_log_private.is_troubled(stream audit_log_private.streams) returns boolean
language sql immutable
return (stream).failures > 0 or (stream).last_ms > 2000;
comment on function audit_log_private.is_troubled is 'Whether the last attempt of a stream failed or was slow.';

create function audit_log_private.due_streams(with_troubled boolean default true) returns refcursor
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  due refcursor;
begin
  open due for
    select s.* from audit_log_private.streams s
    where s.paused_at is null and (with_troubled or not audit_log_private.is_troubled(s))
      -- No wait and no lease is longer. What seems to be was set by a clock that was ahead and has been set back.
      and s.due_at - clock_timestamp() not between interval '0' and interval '1 hour'
      and (s.lease is null or s.leased_until - clock_timestamp() not between interval '0' and interval '5 minutes')
    -- First those that answer, and of these, those with little to do. None is passed over for long.
    order by s.due_at
      + case when audit_log_private.is_troubled(s) then interval '30 seconds' else interval '0' end
      + case when s.batch_has_more then interval '30 seconds' else interval '0' end
    for update skip locked;
  return due;
end $$;
comment on function audit_log_private.due_streams is 'The streams to be tried now. Each is locked when it is fetched.';

create function audit_log_private.note_attempt(stream audit_log_private.streams, outcome jsonb) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  insert into audit_log_private.stream_attempts (
    organization_id, stream_id, slot, at, what, entries, bytes, ms, status, error
  )
  values (
    stream.organization_id, stream.id, stream.attempts % 50, clock_timestamp(), stream.batch_what, stream.batch_entries,
    coalesce((outcome ->> 'bytes')::bigint, 0), coalesce((outcome ->> 'ms')::integer, 0),
    (outcome ->> 'status')::integer, left(outcome ->> 'error', 300)
  )
  on conflict on constraint stream_attempts_pkey do update
  set at = excluded.at, what = excluded.what, entries = excluded.entries, bytes = excluded.bytes, ms = excluded.ms,
    status = excluded.status, error = excluded.error;
  update audit_log_private.streams s
  set attempts = s.attempts + 1, last_ms = coalesce((outcome ->> 'ms')::integer, 0),
    last_error = left(outcome ->> 'error', 300), last_status = (outcome ->> 'status')::integer
  where s.organization_id = stream.organization_id and s.id = stream.id;
end $$;
comment on function audit_log_private.note_attempt is 'Records how the batch that a stream had on its way ended.';

create function audit_log_private.pass_over(
  stream audit_log_private.streams, batch audit_log_private.stream_batch
) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  update audit_log_private.streams s
  set cursor = batch.next_cursor, batch_has_more = batch.has_more, lease = null,
    -- now(): what was committed before this transaction began is in the batch.
    caught_up_at = case when batch.has_more then s.caught_up_at else now() end,
    -- What it failed to deliver may be gone.
    failures = case when batch.has_more then s.failures else 0 end,
    failing_since = case when batch.has_more or s.rejections > 0 then s.failing_since end,
    last_error = case when batch.has_more or s.rejections > 0 then s.last_error end,
    last_status = case when batch.has_more or s.rejections > 0 then s.last_status end,
    -- Less than between two runs, so that none is missed.
    due_at = clock_timestamp() + case when batch.has_more then interval '0' else interval '4 seconds' end
  where s.organization_id = stream.organization_id and s.id = stream.id;
end $$;
comment on function audit_log_private.pass_over is 'Moves a stream to the end of a batch that has nothing for it.';

create function audit_log_private.batch_name(stream audit_log_private.streams, what text, lines text[]) returns text
language sql stable set search_path = pg_catalog, pg_temp
return left(md5(concat_ws(' ', (stream).id, what, array_to_string(lines, E'\n'))), 16);
comment on function audit_log_private.batch_name is 'The same for the same lines of a stream, and for no others.';

create function audit_log_private.lease_batch(stream audit_log_private.streams, limits jsonb) returns json
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  token constant uuid := gen_random_uuid();
  batch audit_log_private.stream_batch;
  platform_id text;
  hash text;
  is_repeat boolean;
begin
  stream.at_once := least(stream.at_once, (limits -> 'entries' ->> (stream.destination ->> 'kind'))::integer);
  if stream.test_asked_at is not null then
    -- In no log.
    batch := ('test', array[format(
      '{"id":"%s","created_at":"%s","action":"audit_log_test","user_email":%s,"agent_name":"Audit log streams",'
      '"data":{"stream_id": "%s"}}',
      gen_random_uuid(), audit_log_private.api_time(stream.test_asked_at),
      to_json(coalesce(stream.owner_email, 'unknown@invalid')), stream.id
    )], stream.cursor, stream.seal, true);
  else
    batch := audit_log_private.next_batch(stream, (limits ->> 'bytes')::integer);
  end if;
  if cardinality(batch.lines) = 0 then
    perform audit_log_private.pass_over(stream, batch);
    return case when batch.has_more then json '{"more": true}' end;
  end if;
  hash := audit_log_private.batch_name(stream, batch.what, batch.lines);
  update audit_log_private.streams s
  set lease = token, leased_at = now(),
    leased_until = clock_timestamp() + make_interval(secs => (limits ->> 'seconds')::integer),
    batch_what = batch.what, batch_entries = cardinality(batch.lines), batch_has_more = batch.has_more,
    next_cursor = batch.next_cursor, next_seal = batch.next_seal, counted_name = hash
  where s.organization_id = stream.organization_id and s.id = stream.id;
  if batch.what = 'entries' then
    -- With those that follow, if it was tried before.
    is_repeat :=
      stream.counted_name = audit_log_private.batch_name(stream, batch.what, batch.lines[1 : stream.batch_entries]);
    -- Now, and not when it is confirmed: whatever the destination answers, it has seen them.
    perform audit_log_private.count_read(
      stream.organization_id, cardinality(batch.lines) - case when is_repeat then stream.batch_entries else 0 end,
      concat_ws(
        ' ', 'stream', stream.id, 'to', audit_log_private.stream_host(stream.destination), 'of ' || stream.owner
      ), stream.owner_email
    );
  end if;
  select o.platform_id into strict platform_id from audit_log.organizations o
  where o.id = stream.organization_id and o.closed_at is null;
  return json_build_object('batch', json_build_object(
    'lease', token, 'organization_id', stream.organization_id, 'stream_id', stream.id, 'platform_id', platform_id,
    'what', batch.what, 'lines', batch.lines, 'destination', stream.destination, 'sealed', stream.sealed,
    'sealed_before', case when stream.signs_both_until > clock_timestamp() then stream.sealed_before end,
    'is_troubled', audit_log_private.is_troubled(stream), 'number', stream.entries, 'name', hash
  ));
end $$;
comment on function audit_log_private.lease_batch is
  'Gives out the next batch of a stream, as take_batch returns it, and counts it as read.';

create function audit_log.take_batch(project_url text, limits jsonb, with_troubled boolean default true) returns json
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  due refcursor;
  stream audit_log_private.streams;
  batch json;
  ended constant jsonb := jsonb '{"error": "the function ended before it could tell the result"}';
  sender text;
begin
  -- What a batch has seen is on disk before it is sent, as in read_resource.
  perform set_config('synchronous_commit', 'on', true);
  if not audit_log_private.is_stream_home() then
    return json '{"stopped": "this database is a copy: it sends nothing until adopt_streams()"}';
  end if;
  select h.project_url into sender from audit_log_private.stream_home h;
  if sender <> coalesce(rtrim(lower(project_url), '/'), '') then
    return json_build_object('stopped', format(
      'streams are sent by the Edge Function of %s, and not of %s, until adopt_streams()', sender, project_url
    ));
  end if;
  due := audit_log_private.due_streams(with_troubled);
  for looked_at in 1 .. 100 loop
    fetch due into stream;
    if not found then
      return json '{}';
    end if;
    if stream.lease is not null then
      perform audit_log_private.note_attempt(stream, ended);
      -- Once, that may be another stream's fault. Twice in a row, it waits: it may be what ends the function.
      if stream.failures > 0 then
        perform audit_log_private.postpone_batch(stream, ended);
        continue;
      end if;
      update audit_log_private.streams s set failures = 1, failing_since = clock_timestamp()
      where s.organization_id = stream.organization_id and s.id = stream.id
      returning s.* into strict stream;
    end if;
    begin
      batch := audit_log_private.lease_batch(stream, limits);
    exception
      -- It must not keep the others from their turns.
      when query_canceled or others then
        perform audit_log_private.postpone_batch(stream, jsonb_build_object('error', 'the database: ' || sqlerrm));
        -- The time of this statement is over: the next call has time for the others.
        if sqlstate = '57014' then
          return json '{"more": true}';
        end if;
    end;
    if batch is not null then
      return batch;
    end if;
  end loop;
  return json '{"more": true}';
end $$;
comment on function audit_log.take_batch is
  'Leases the batch of a stream that is due: {batch: {…}}; {} if there is none; {"more": true} if there may be; '
  '{"stopped": why} if streams do not run here. limits: {seconds: of the lease, bytes and entries (by kind): the most '
  'in a batch}. For the Edge Function only.';

create function audit_log_private.confirm_batch(stream audit_log_private.streams, rejected jsonb)
returns audit_log_private.streams
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  clock constant timestamptz := clock_timestamp();
  before constant audit_log_private.streams := stream;
  is_accepted constant boolean := jsonb_array_length(rejected) < stream.batch_entries;
  begins constant boolean :=
    is_accepted and stream.starts_in_past and stream.batch_what = 'entries' and stream.rejections < 10;
begin
  insert into audit_log_private.rejected_entries (
    organization_id, stream_id, created_at, entry_id, rejected_at, answer
  )
  select
    stream.organization_id, stream.id, (r ->> 'created_at')::timestamptz, (r ->> 'id')::uuid, clock,
    left(r ->> 'answer', 300)
  from jsonb_array_elements(rejected) as r
  on conflict do nothing;
  update audit_log_private.streams s
  set cursor = s.next_cursor, seal = s.next_seal, lease = null, failures = 0,
    entries = s.entries
      + case s.batch_what when 'entries' then s.batch_entries - jsonb_array_length(rejected) else 0 end,
    test_asked_at = case when s.batch_what <> 'test' then s.test_asked_at end,
    caught_up_at = case when s.batch_has_more then s.caught_up_at else s.leased_at end,
    -- As in pass_over.
    due_at = clock + case when s.batch_has_more then interval '0' else interval '4 seconds' end,
    starts_in_past = s.starts_in_past and not begins,
    at_once = case when is_accepted and s.batch_what = 'entries' then least(1000, s.at_once * 2) else s.at_once end,
    -- All that it rejects in a row come again if the fault is its own.
    rejections = case
      when not is_accepted then s.rejections + 1 when s.batch_what = 'entries' then 0 else s.rejections end,
    rejected_from = case when not is_accepted and s.rejections = 0 then s.cursor else s.rejected_from end,
    rejected_since = case when not is_accepted and s.rejections = 0 then clock else s.rejected_since end,
    failing_since = case when not is_accepted then least(s.failing_since, clock) end, -- A clock may have been ahead.
    delivered_at = case when is_accepted then clock else s.delivered_at end,
    told_at = case when not is_accepted then s.told_at end,
    last_error = case when not is_accepted then s.last_error end,
    last_status = case when not is_accepted then s.last_status end
  where s.organization_id = stream.organization_id and s.id = stream.id
  returning s.* into strict stream;
  if begins then
    update audit_log_private.stream_limits l set backfilled_at = clock where l.organization_id = stream.organization_id;
  end if;
  if is_accepted and before.told_at is not null then
    perform audit_log_private.log_stream_event(stream, 'stream_recovered', jsonb_build_object(
      'since', audit_log_private.api_time(coalesce(before.failing_since, before.told_at))
    ), may_fail => true);
  end if;
  return stream;
end $$;
comment on function audit_log_private.confirm_batch is
  'The destination has the batch, except for what it rejects: [{id, created_at, answer}].';

create function audit_log_private.take_rejections_back(stream audit_log_private.streams) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  if stream.rejections > 0 then
    delete from audit_log_private.rejected_entries r
    where r.organization_id = stream.organization_id and r.stream_id = stream.id
      and r.rejected_at >= stream.rejected_since;
    update audit_log_private.streams s
    set cursor = s.rejected_from, rejections = 0, batch_has_more = true
    where s.organization_id = stream.organization_id and s.id = stream.id;
  end if;
end $$;
comment on function audit_log_private.take_rejections_back is 'Sends again what was rejected since the last success.';

create function audit_log_private.postpone_batch(stream audit_log_private.streams, outcome jsonb) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  clock constant timestamptz := clock_timestamp();
  is_gone constant boolean := outcome ->> 'decision' is not distinct from 'gone';
  wait_seconds constant numeric := least(3600, coalesce(
    (outcome ->> 'wait_s')::numeric,
    10 * 2 ^ least(stream.failures, 12) * (0.75 + random() / 2)
  ));
  begins constant boolean :=
    stream.told_at is null and not is_gone and stream.failing_since < clock - interval '15 minutes';
begin
  update audit_log_private.streams s
  set failures = s.failures + 1, failing_since = least(s.failing_since, clock), -- As in confirm_batch.
    told_at = case when begins then clock else s.told_at end,
    last_error = left(outcome ->> 'error', 300), last_status = (outcome ->> 'status')::integer,
    paused_at = case when is_gone then clock else s.paused_at end,
    paused_why = case when is_gone then 'the destination answered 410: it wants no more' else s.paused_why end,
    -- It may have had no time for so many. Without a lease, none was sent.
    at_once = case when s.lease is not null and s.batch_what = 'entries' and outcome ->> 'status' is null
      then greatest(1, s.batch_entries / 2) else s.at_once end,
    due_at = clock + make_interval(secs => wait_seconds), lease = null
  where s.organization_id = stream.organization_id and s.id = stream.id
  returning s.* into strict stream;
  if is_gone then
    perform audit_log_private.log_stream_event(
      stream, 'stream_paused', jsonb_build_object('reason', stream.paused_why), may_fail => true
    );
  elsif begins then
    perform audit_log_private.log_stream_event(stream, 'stream_failing', jsonb_build_object(
      'since', audit_log_private.api_time(stream.failing_since), 'error', stream.last_error
    ), may_fail => true);
  end if;
end $$;
comment on function audit_log_private.postpone_batch is
  'The destination does not have the batch, which is tried again after 10 seconds, then twice as long each time.';

create function audit_log.settle_batch(
  organization_id uuid, stream_id uuid, lease uuid, outcome jsonb, limits jsonb, wants_more boolean
) returns json
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  stream audit_log_private.streams;
  rejected constant jsonb := outcome -> 'rejected';
  decision text := outcome ->> 'decision';
begin
  perform set_config('synchronous_commit', 'on', true); -- As in take_batch.
  select s.* into stream from audit_log_private.streams s
  where s.organization_id = settle_batch.organization_id and s.id = stream_id and s.lease = settle_batch.lease
  for update;
  if not found then
    -- Deleted or changed, or the lease ran out and another has it: that one delivers the batch again.
    return json '{"lost": true}';
  end if;
  if stream.batch_what <> 'entries' then
    -- Only entries may be rejected. A seal that was left out would break the chain.
    decision := case when decision = 'rejected' or rejected <> '[]' then 'wait' else decision end;
  elsif decision = 'delivered' and jsonb_array_length(rejected) = stream.batch_entries then
    decision := 'rejected';
  end if;
  outcome := outcome || jsonb_build_object(
    'decision', decision, 'error', coalesce(outcome ->> 'error', rejected #>> '{0,answer}')
  );
  perform audit_log_private.note_attempt(stream, outcome);
  if decision = 'rejected' and stream.batch_entries > 1 then
    -- Halves it, until one is left.
    update audit_log_private.streams s
    set at_once = s.batch_entries / 2, batch_has_more = true, due_at = clock_timestamp(), lease = null
    where s.organization_id = stream.organization_id and s.id = stream.id
    returning s.* into strict stream;
  elsif decision = 'rejected' and stream.rejections >= 10 then
    -- Ten in a row, and then the newest one: no entry is at fault.
    perform audit_log_private.take_rejections_back(stream);
    perform audit_log_private.postpone_batch(stream, outcome || jsonb_build_object(
      'error', concat('every entry is rejected: ', outcome ->> 'error')
    ));
    return json '{}';
  elsif decision in ('delivered', 'rejected') and (rejected = '[]' or (
    select count(*) + jsonb_array_length(rejected) <= 1000 from audit_log_private.rejected_entries r
    where r.organization_id = stream.organization_id and r.stream_id = stream.id
  )) then
    stream := audit_log_private.confirm_batch(stream, rejected);
  else
    perform audit_log_private.postpone_batch(stream, outcome);
    return json '{}';
  end if;
  if wants_more and stream.batch_has_more and stream.paused_at is null then
    begin
      return coalesce(audit_log_private.lease_batch(stream, limits), '{}');
    exception
      -- The batch before stays settled. take_batch meets the error again, and tells it.
      when query_canceled or others then null;
    end;
  end if;
  return json '{}';
end $$;
comment on function audit_log.settle_batch is
  'Says how a leased batch ended: {decision: delivered, rejected (try less at once), wait or gone; rejected: [{id, '
  'created_at, answer}], status, error, wait_s, bytes, ms}. Returns {"lost": true} if another has the lease, and with '
  'wants_more the next batch of the stream. For the Edge Function only.';

-- Scheduled calls.

create function audit_log_private.runs_due() returns integer
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  due refcursor;
  stream audit_log_private.streams;
  batch audit_log_private.stream_batch;
  ready integer := 0;
begin
  if not audit_log_private.is_stream_home() then
    return 0;
  end if;
  due := audit_log_private.due_streams();
  while ready < 400 loop
    fetch due into stream;
    exit when not found;
    begin
      if stream.test_asked_at is null and stream.failures = 0 and stream.lease is null and stream.rejections < 10 then
        stream.at_once := 1;
        batch := audit_log_private.next_batch(stream, 1);
        if cardinality(batch.lines) = 0 then
          perform audit_log_private.pass_over(stream, batch);
          continue when not batch.has_more;
        end if;
      end if;
    exception
      when query_canceled or others then
        -- take_batch tells. If the time of this statement is over, the function looks at the others, too.
        if sqlstate = '57014' then
          return 1 + ready / 100;
        end if;
    end;
    ready := ready + 1;
  end loop;
  return ceil(ready / 100.0);
end $$;
comment on function audit_log_private.runs_due is
  'How often to call the Edge Function now. Without pg_cron, call this regularly, and post as often.';

create function audit_log_private.call_streams_function() returns integer
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  runs integer := audit_log_private.runs_due();
  post text := 'net.http_post';
  queue constant regclass := to_regclass('net.http_request_queue');
  waiting integer;
  home record;
begin
  select h.* into strict home from audit_log_private.stream_home h;
  -- Calls that pg_net has not begun to post, because it is busy or down, will do. Old versions may not show them.
  if runs > 0 and has_table_privilege(queue, 'update') then
    execute format(
      'select count(*) from (select from %s where headers ->> ''x-trigger-secret'' = $1 for key share skip locked) '
      'as q', queue
    ) into strict waiting using home.trigger_secret;
    runs := greatest(0, runs - waiting);
  end if;
  for n in 1 .. runs loop
    -- Not every project has pg_net, so db lint must not read it. Parameters, because Postgres logs a text that fails.
    execute format('select %s(url := $1, headers := $2)', post)
    using home.function_url, jsonb_build_object('x-trigger-secret', home.trigger_secret);
  end loop;
  return runs;
end $$;
comment on function audit_log_private.call_streams_function is 'Calls the Edge Function as often as runs_due says.';

create function audit_log_private.set_up_streams(url text, trigger_secret text, every integer default 10) returns text
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  -- As SUPABASE_URL has it, with which it is compared.
  if (
    url ~* '^https?://[a-z0-9.-]+(:[0-9]+)?/[!-~]+$' and url !~* '^(https://[^/]*:443|http://[^/]*:80)/'
    and char_length(trigger_secret) >= 20 and every between 5 and 60
  ) is not true then
    raise exception
      'give the address of the Edge Function, which begins with its SUPABASE_URL, a trigger secret of at least 20 '
      'characters, and 5 to 60 seconds'
      using errcode = 'invalid_parameter_value';
  end if;
  update audit_log_private.stream_home h
  set function_url = url, trigger_secret = set_up_streams.trigger_secret,
    -- The first one: in a copy that has not adopted the streams, this is that of the original.
    project_url = coalesce(h.project_url, lower(substring(url from '^https?://[^/?#]+')))
  where h.is_only;
  if to_regclass('cron.job') is null or to_regclass('net.http_request_queue') is null then
    return 'not scheduled, because pg_cron or pg_net is missing: create both extensions and repeat this call, or call '
      'audit_log_private.runs_due() regularly yourself';
  end if;
  -- The second deletes what pg_cron would keep for ever of each run. Those that a restart interrupted have no end.
  execute format(
    'select cron.schedule(''audit_log_streams'', %L, ''select audit_log_private.call_streams_function()''), '
    'cron.schedule(''audit_log_streams_history'', ''7 * * * *'', %L)',
    case every when 60 then '* * * * *' else every || ' seconds' end,
    'delete from cron.job_run_details d using cron.job j where j.jobid = d.jobid '
    'and j.jobname like ''audit_log_streams%'' and d.runid <= ('
    'select max(o.runid) from cron.job_run_details o where o.end_time < now() - interval ''1 day'')'
  );
  return format('scheduled every %s seconds', every);
end $$;
comment on function audit_log_private.set_up_streams is
  'Has the Edge Function called every so many seconds while there is something to send. May be repeated. '
  'cron.unschedule(''audit_log_streams'') ends it.';
