-- The queue of streams, for the Edge Function audit-log-streams: it takes a batch under a lease, sends it, and settles
-- it. The place moves when a batch is confirmed, and only for the holder of the lease: so a batch may be sent twice,
-- and nothing is skipped.

create domain audit_log."application/vnd.public-audit-log+ndjson" as text;

create function audit_log_private.is_due(stream audit_log_private.streams) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  clock constant timestamptz := clock_timestamp();
begin
  -- No wait and no lease is longer. What seems to be was set by a clock that was ahead and has been set back.
  return stream.paused_at is null and stream.due_at not between clock and clock + interval '1 hour'
    and (stream.leased_until between clock and clock + interval '5 minutes') is not true;
end $$;
comment on function audit_log_private.is_due is 'Whether a stream may be tried now, and nobody has its lease.';

create function audit_log_private.due_streams() returns table (organization_id uuid, id uuid, is_quick boolean)
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  return query
    select d.organization_id, d.id, d.is_quick from (
      select s.*, s.failures = 0 and s.test_asked_at is null and s.last_ms <= 2000 as is_quick
      from audit_log_private.streams s where audit_log_private.is_due(s)
    ) as d
    -- First those that answer quickly, and of these, those with little to do. Each is passed over for a minute at most.
    order by d.due_at
      + case when d.is_quick then interval '0' else interval '30 seconds' end
      + case when d.batch_has_more then interval '30 seconds' else interval '0' end;
end $$;
comment on function audit_log_private.due_streams is
  'The streams to be tried now, in the order of their turns. is_quick: the last attempt succeeded within 2 seconds.';

create function audit_log_private.lock_due_stream(organization_id uuid, stream_id uuid)
returns audit_log_private.streams
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  stream audit_log_private.streams;
begin
  select s.* into stream from audit_log_private.streams s
  where s.organization_id = lock_due_stream.organization_id and s.id = lock_due_stream.stream_id
    and audit_log_private.is_due(s)
  for update skip locked;
  return stream;
end $$;
comment on function audit_log_private.lock_due_stream is
  'Locks a stream; null if somebody else does, or it is not due any more. One by one: others look at the same list.';

create function audit_log_private.note_attempt(stream audit_log_private.streams, outcome jsonb) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  clock constant timestamptz := clock_timestamp();
  hour constant timestamptz := date_trunc('hour', clock, 'UTC');
  is_delivered constant boolean := outcome ->> 'decision' is not distinct from 'delivered';
begin
  insert into audit_log_private.stream_attempts (
    organization_id, stream_id, slot, at, what, entries, bytes, ms, status, error
  )
  values (
    stream.organization_id, stream.id, stream.attempts % 50, clock, stream.batch_what, stream.batch_entries,
    coalesce((outcome ->> 'bytes')::bigint, 0), coalesce((outcome ->> 'ms')::integer, 0),
    (outcome ->> 'status')::integer, left(outcome ->> 'error', 300)
  )
  on conflict on constraint stream_attempts_pkey do update
  set at = excluded.at, what = excluded.what, entries = excluded.entries, bytes = excluded.bytes, ms = excluded.ms,
    status = excluded.status, error = excluded.error;
  insert into audit_log_private.stream_hours as h (organization_id, stream_id, slot, hour, entries, failures)
  values (
    stream.organization_id, stream.id, extract(epoch from hour)::bigint / 3600 % 24, hour,
    case when is_delivered and stream.batch_what in ('entries', 'again')
      then stream.batch_entries - coalesce(jsonb_array_length(outcome -> 'set_aside'), 0) else 0 end,
    (not is_delivered)::integer
  )
  on conflict on constraint stream_hours_pkey do update
  set hour = excluded.hour,
    entries = excluded.entries + case when h.hour = excluded.hour then h.entries else 0 end,
    failures = excluded.failures + case when h.hour = excluded.hour then h.failures else 0 end;
  update audit_log_private.streams s
  set attempts = s.attempts + 1, last_ms = coalesce((outcome ->> 'ms')::integer, 0)
  where s.organization_id = stream.organization_id and s.id = stream.id;
end $$;
comment on function audit_log_private.note_attempt is 'Records how the batch that a stream had on its way ended.';

create function audit_log_private.pass_over(
  stream audit_log_private.streams, batch audit_log_private.stream_batch
) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  update audit_log_private.streams s
  set place = batch.next_place, batch_has_more = batch.has_more, lease = null, leased_until = null,
    -- now(): what was committed before this transaction began is in the batch.
    caught_up_at = case when batch.has_more then s.caught_up_at else now() end,
    -- What it failed to deliver may be gone.
    failures = case when batch.has_more then s.failures else 0 end,
    failing_since = case when batch.has_more then s.failing_since end,
    -- Less than between two rings of the bell, so that none is missed.
    due_at = clock_timestamp() + case when batch.has_more then interval '0' else interval '4 seconds' end
  where s.organization_id = stream.organization_id and s.id = stream.id;
end $$;
comment on function audit_log_private.pass_over is
  'Moves a stream to the end of a batch without lines, so that what does not match it is not examined again.';

create function audit_log_private.lease_batch(
  stream audit_log_private.streams, lease_seconds integer, most_bytes integer
) returns text
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  token constant uuid := gen_random_uuid();
  batch audit_log_private.stream_batch;
  body text;
  shown_id text;
begin
  if stream.test_asked_at is not null then
    batch := audit_log_private.test_batch(stream);
  else
    batch := audit_log_private.again_batch(stream);
    if batch.lines is null then
      batch := audit_log_private.next_batch(stream, most_bytes);
    end if;
  end if;
  if cardinality(batch.lines) = 0 then
    perform audit_log_private.pass_over(stream, batch);
    return case when batch.has_more then '{"more":true}' end;
  elsif batch.what = 'again' then
    update audit_log_private.set_aside_entries a set lease = token
    from unnest(batch.lines) as l (line)
    where a.organization_id = stream.organization_id and a.stream_id = stream.id
      and a.created_at = substr(l.line, 60, 24)::timestamptz and a.entry_id = substr(l.line, 8, 36)::uuid;
  end if;
  update audit_log_private.streams s
  set lease = token, leased_at = now(), leased_until = clock_timestamp() + make_interval(secs => lease_seconds),
    batch_what = batch.what, batch_entries = cardinality(batch.lines), batch_has_more = batch.has_more,
    next_place = batch.next_place, next_seal = batch.next_seal
  where s.organization_id = stream.organization_id and s.id = stream.id;
  body := array_to_string(batch.lines, E'\n');
  select coalesce(o.external_id, o.former_external_id, o.id::text) into strict shown_id
  from audit_log.organizations o where o.id = stream.organization_id;
  return json_build_object(
    'lease', token, 'organization_id', stream.organization_id, 'stream_id', stream.id, 'shown_id', shown_id,
    'what', case batch.what when 'again' then 'entries' else batch.what end, 'is_again', batch.what = 'again',
    'destination', stream.destination, 'sealed', stream.sealed,
    'sealed_before', case when stream.signs_both_until > clock_timestamp() then stream.sealed_before end,
    'attempt', stream.attempts + 1, 'number', stream.entries,
    -- The same for the same lines, and for no others: receivers ignore what has a name that they know.
    'batch_name', left(md5(concat_ws(' ', stream.id, batch.what, body)), 16)
  )::text || E'\n' || body;
end $$;
comment on function audit_log_private.lease_batch is
  'Gives the next batch of a stream out, as take_batch returns it; null if it has nothing to send, {"more":true} if '
  'there is nothing for it in what was looked at.';

create function audit_log.take_batch(
  project_url text, lease_seconds integer, most_bytes integer, only_quick boolean default false
) returns audit_log."application/vnd.public-audit-log+ndjson"
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  due record;
  stream audit_log_private.streams;
  batch text;
  ended constant jsonb := jsonb '{"error": "the function ended before it could tell the result"}';
  looked_at integer := 0;
  sender text;
  is_ours boolean;
begin
  -- What a batch has seen is on disk before it is sent, as in read_resource.
  perform set_config('synchronous_commit', 'on', true);
  if not audit_log_private.is_stream_home() then
    return '{"stopped":"this database is a copy: it sends nothing until adopt_streams()"}';
  end if;
  select h.project_url into sender from audit_log_private.stream_home h;
  is_ours := sender is null or coalesce(sender = rtrim(lower(project_url), '/'), false);
  -- If another one asks, stream_state tells people.
  update audit_log_private.stream_home h set other_project_url = case when not is_ours then take_batch.project_url end
  where h.other_project_url is distinct from case when not is_ours then take_batch.project_url end;
  if not is_ours then
    return json_build_object('stopped', format(
      'streams are sent by the Edge Function of %s, and not of %s, until adopt_streams()', sender, project_url
    ));
  end if;
  for due in
    select d.organization_id, d.id from audit_log_private.due_streams() as d
    where d.is_quick or not only_quick limit 100
  loop
    looked_at := looked_at + 1;
    stream := audit_log_private.lock_due_stream(due.organization_id, due.id);
    continue when stream.id is null;
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
      batch := audit_log_private.lease_batch(stream, lease_seconds, most_bytes);
    exception
      -- It must not keep the others from their turns.
      when query_canceled or others then
        perform audit_log_private.postpone_batch(stream, jsonb_build_object('error', 'the database: ' || sqlerrm));
        -- The time of this statement is over: the next call has time for the others.
        if sqlstate = '57014' then
          return '{"more":true}';
        end if;
    end;
    if batch is not null then
      return batch;
    end if;
  end loop;
  return case when looked_at = 100 then '{"more":true}' else '{}' end;
end $$;
comment on function audit_log.take_batch is
  'Leases the batch of a stream that is due. The first line is {lease, organization_id, stream_id, shown_id, what, '
  'is_again, destination, sealed, sealed_before, attempt, number, batch_name}, the others are what is to be sent. {} '
  'if there is none now; {"more":true} if there may be; {"stopped": why} if this database is a copy, or project_url '
  'not that of its Edge Function. For the Edge Function only.';

create function audit_log.recut_batch(organization_id uuid, stream_id uuid, lease uuid, most integer)
returns audit_log."application/vnd.public-audit-log+ndjson"
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  stream audit_log_private.streams;
  batch audit_log_private.stream_batch;
begin
  perform set_config('synchronous_commit', 'on', true);
  select s.* into stream from audit_log_private.streams s
  where s.organization_id = recut_batch.organization_id and s.id = stream_id and s.lease = recut_batch.lease
    and s.batch_what = 'entries'
  for update;
  if not found then
    return '{"lost":true}';
  end if;
  stream.at_once := most;
  batch := audit_log_private.next_batch(stream, 900000);
  if batch.what <> 'entries' or cardinality(batch.lines) = 0 then
    -- They were deleted since, or the stream is for other actions by now.
    return '{"lost":true}';
  end if;
  update audit_log_private.streams s
  set next_place = batch.next_place, batch_entries = cardinality(batch.lines), batch_has_more = batch.has_more,
    leased_at = now(), leased_until = clock_timestamp() + interval '5 minutes'
  where s.organization_id = stream.organization_id and s.id = stream.id;
  return E'{}\n' || array_to_string(batch.lines, E'\n');
end $$;
comment on function audit_log.recut_batch is
  'Cuts a leased batch anew, from its place on, and begins its lease again: fewer entries, if the destination takes no '
  'more; or more, to be sent one by one, which shows whether the first one or the destination is at fault. '
  '{"lost":true} if there are none. For the Edge Function only.';

create function audit_log_private.confirm_batch(stream audit_log_private.streams, set_aside jsonb)
returns audit_log_private.streams
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  clock constant timestamptz := clock_timestamp();
  before constant audit_log_private.streams := stream;
begin
  delete from audit_log_private.set_aside_entries a
  where stream.batch_what = 'again' and a.organization_id = stream.organization_id and a.stream_id = stream.id
    and a.lease = stream.lease;
  insert into audit_log_private.set_aside_entries (
    organization_id, stream_id, created_at, entry_id, set_aside_at, reason
  )
  select
    stream.organization_id, stream.id, (a ->> 'created_at')::timestamptz, (a ->> 'id')::uuid, clock,
    left(a ->> 'reason', 300)
  from jsonb_array_elements(set_aside) as a
  on conflict do nothing;
  update audit_log_private.streams s
  set place = s.next_place, seal = s.next_seal, lease = null, leased_until = null,
    entries = s.entries
      + case when s.batch_what in ('entries', 'again') then s.batch_entries - jsonb_array_length(set_aside) else 0 end,
    at_once = case when s.batch_what = 'entries' then least(1000, s.at_once * 2) else s.at_once end,
    test_asked_at = case when s.batch_what <> 'test' then s.test_asked_at end,
    delivered_at = clock, caught_up_at = case when s.batch_has_more then s.caught_up_at else s.leased_at end,
    failures = 0, failing_since = null, told_at = null, last_error = null, last_status = null,
    -- As in pass_over.
    due_at = clock + case when s.batch_has_more then interval '0' else interval '4 seconds' end
  where s.organization_id = stream.organization_id and s.id = stream.id
  returning s.* into strict stream;
  if before.told_at is not null then
    perform audit_log_private.log_stream_event(stream, 'stream_recovered', jsonb_build_object(
      'since', audit_log_private.api_time(coalesce(before.failing_since, before.told_at))
    ));
  end if;
  return stream;
end $$;
comment on function audit_log_private.confirm_batch is
  'The destination has the batch, except for these entries, which are set aside: [{id, created_at, reason}]. Returns '
  'the stream at its new place.';

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
  set failures = s.failures + 1, failing_since = coalesce(s.failing_since, clock),
    told_at = case when begins then clock else s.told_at end,
    last_error = left(outcome ->> 'error', 300), last_status = (outcome ->> 'status')::integer,
    paused_at = case when is_gone then clock else s.paused_at end,
    paused_why = case when is_gone then 'the destination answered 410: it wants no more' else s.paused_why end,
    due_at = clock + make_interval(secs => wait_seconds), lease = null, leased_until = null
  where s.organization_id = stream.organization_id and s.id = stream.id
  returning s.* into strict stream;
  if is_gone then
    perform audit_log_private.log_stream_event(
      stream, 'stream_paused', jsonb_build_object('reason', stream.paused_why)
    );
  elsif begins then
    perform audit_log_private.log_stream_event(stream, 'stream_failing', jsonb_build_object(
      'since', audit_log_private.api_time(stream.failing_since), 'error', stream.last_error
    ));
  end if;
end $$;
comment on function audit_log_private.postpone_batch is
  'The destination does not have the batch. Tries again after 10 seconds, then twice as long each time, up to an hour, '
  'or when it says; never, if it is gone.';

create function audit_log.settle_batch(
  organization_id uuid, stream_id uuid, lease uuid, outcome jsonb, lease_seconds integer, most_bytes integer,
  wants_more boolean
) returns audit_log."application/vnd.public-audit-log+ndjson"
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  stream audit_log_private.streams;
  set_aside constant jsonb := coalesce(outcome -> 'set_aside', '[]');
  set_aside_before bigint;
begin
  perform set_config('synchronous_commit', 'on', true); -- As in take_batch.
  select s.* into stream from audit_log_private.streams s
  where s.organization_id = settle_batch.organization_id and s.id = stream_id and s.lease = settle_batch.lease
  for update;
  if not found then
    -- Deleted or changed, or the lease ran out and another has it: that one delivers the batch again.
    return '{"lost":true}';
  end if;
  select count(*) into strict set_aside_before from audit_log_private.set_aside_entries a
  where a.organization_id = stream.organization_id and a.stream_id = stream.id
    and a.lease is distinct from stream.lease;
  if outcome ->> 'decision' = 'delivered' and stream.batch_what in ('test', 'seals') and set_aside <> '[]' then
    -- Only entries are set aside. A seal that was left out would break the chain.
    outcome := outcome || jsonb_build_object('decision', 'wait', 'error', set_aside #> '{0,reason}');
  elsif outcome ->> 'decision' = 'delivered' and set_aside_before + jsonb_array_length(set_aside) > 1000 then
    outcome := outcome || jsonb_build_object('decision', 'wait', 'error', concat(
      'the destination refuses more than 1,000 entries: ', set_aside #>> '{0,reason}'
    ));
  end if;
  perform audit_log_private.note_attempt(stream, outcome);
  if outcome ->> 'decision' = 'delivered' then
    stream := audit_log_private.confirm_batch(stream, set_aside);
  elsif outcome ->> 'decision' = 'refused' and stream.batch_what in ('entries', 'again') and stream.batch_entries > 1
  then
    update audit_log_private.streams s
    set at_once = s.batch_entries / 2, batch_has_more = true, last_error = left(outcome ->> 'error', 300),
      last_status = (outcome ->> 'status')::integer, due_at = clock_timestamp(), lease = null, leased_until = null
    where s.organization_id = stream.organization_id and s.id = stream.id
    returning s.* into strict stream;
  else
    perform audit_log_private.postpone_batch(stream, outcome);
    return '{}';
  end if;
  if wants_more and stream.batch_has_more and stream.paused_at is null then
    begin
      return coalesce(audit_log_private.lease_batch(stream, lease_seconds, most_bytes), '{}');
    exception
      -- The batch before stays settled. take_batch meets the error again, and tells it.
      when query_canceled or others then null;
    end;
  end if;
  return '{}';
end $$;
comment on function audit_log.settle_batch is
  'Says how a leased batch ended: {decision: delivered, refused (try less at once), wait or gone; set_aside: [{id, '
  'created_at, reason}] that the destination alone refuses, status, error, wait_s, bytes, ms}. Returns {"lost":true} '
  'if the lease is not valid any more; with wants_more the next batch of the same stream, as take_batch does; else {}. '
  'For the Edge Function only.';

-- Rings.

create function audit_log_private.rings_due(most integer default 4) returns integer
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  due record;
  stream audit_log_private.streams;
  batch audit_log_private.stream_batch;
  ready integer := 0;
begin
  if not audit_log_private.is_stream_home() then
    return 0;
  end if;
  for due in select d.organization_id, d.id from audit_log_private.due_streams() as d loop
    exit when ready >= most * 100;
    stream := audit_log_private.lock_due_stream(due.organization_id, due.id);
    continue when stream.id is null;
    begin
      if stream.test_asked_at is null and stream.failures = 0 and stream.lease is null
        and (audit_log_private.again_batch(stream)).lines is null
      then
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
comment on function audit_log_private.rings_due is
  'How often to ring the Edge Function now, once for each 100 streams with something to send. While nothing happens in '
  'the logs, 0. Without pg_cron, call this regularly, and post to the function as often.';

create function audit_log_private.ring_streams() returns integer
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  rings integer := audit_log_private.rings_due();
  post text := 'net.http_post';
  queue constant regclass := to_regclass('net.http_request_queue');
  waiting integer;
  home record;
begin
  select h.* into strict home from audit_log_private.stream_home h;
  -- Rings that pg_net has not begun to post, because it is busy or down, will do. Old versions may not show them.
  if rings > 0 and has_table_privilege(queue, 'update') then
    execute format(
      'select count(*) from (select from %s where headers ->> ''x-bell'' = $1 for key share skip locked) as q', queue
    ) into strict waiting using home.bell_word;
    rings := greatest(0, rings - waiting);
  end if;
  for n in 1 .. rings loop
    -- Not every project has pg_net, so db lint must not read it. Parameters, because Postgres logs a text that fails.
    execute format('select %s(url := $1, headers := $2)', post)
    using home.bell_address, jsonb_build_object('x-bell', home.bell_word);
  end loop;
  return rings;
end $$;
comment on function audit_log_private.ring_streams is
  'Rings the Edge Function through pg_net as often as rings_due says. What set_up_streams schedules.';

create function audit_log_private.set_up_streams(url text, bell_word text, every integer default 10) returns text
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  if (url ~ '^https?://[!-~]+$' and char_length(bell_word) >= 20 and every between 5 and 60) is not true then
    raise exception 'give the address of the Edge Function, a word of at least 20 characters, and 5 to 60 seconds'
      using errcode = 'invalid_parameter_value';
  end if;
  update audit_log_private.stream_home h
  set bell_address = url, bell_word = set_up_streams.bell_word,
    -- The first one: in a copy that has not adopted the streams, this is that of the original.
    project_url = coalesce(h.project_url, lower(substring(url from '^https?://[^/?#]+')))
  where h.is_only;
  if to_regclass('cron.job') is null or to_regclass('net.http_request_queue') is null then
    return 'not scheduled, because pg_cron or pg_net is missing: create both extensions and repeat this call, or call '
      'audit_log_private.rings_due() regularly yourself';
  end if;
  -- The second deletes what pg_cron would keep for ever of each run. Those that a restart interrupted have no end.
  begin
    execute format(
      'select cron.schedule(''audit_log_streams'', %L, ''select audit_log_private.ring_streams()''), '
      'cron.schedule(''audit_log_streams_history'', ''7 * * * *'', %L)',
      case every when 60 then '* * * * *' else every || ' seconds' end,
      'delete from cron.job_run_details d using cron.job j where j.jobid = d.jobid '
      'and j.jobname like ''audit_log_streams%'' and d.runid <= ('
      'select max(o.runid) from cron.job_run_details o where o.end_time < now() - interval ''1 day'')'
    );
  exception
    when invalid_parameter_value then
      return 'not scheduled, because pg_cron before 1.5 does not know seconds: repeat this call with 60, or upgrade';
  end;
  return format('scheduled every %s seconds', every);
end $$;
comment on function audit_log_private.set_up_streams is
  'Has the Edge Function rung every so many seconds while there is something to send. May be repeated. '
  'bell_word is its AUDIT_LOG_STREAMS_BELL. cron.unschedule(''audit_log_streams'') ends it.';
