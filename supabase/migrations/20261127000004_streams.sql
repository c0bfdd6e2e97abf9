-- Written by deno task migration from supabase/schemas: edit the files there.

-- From supabase/schemas/8_streams/01_streams.sql.

-- Streams: where an administrator has the log pushed to. The feed is the queue, so a stream is a query, a cursor and a
-- destination. Its cursor never leaves the database, so it is not encrypted, and it stays exact after a restore.
-- Here, a batch is what a stream sends at once, not what was committed between two snapshots, as in 2_feed/02_feed.sql.

create table audit_log_private.streams (
  organization_id uuid not null references audit_log.organizations on delete cascade,
  id uuid not null default gen_random_uuid(),
  name text not null check (char_length(name) between 1 and 100),
  -- {kind, url, …}: what is no secret. Administrators and auditors see it.
  destination jsonb not null check (octet_length(destination::text) <= 2000),
  -- The secret, sealed by the browser for the Edge Function, organization, kind and host. Nobody gets it.
  sealed text check (sealed ~ '^[A-Za-z0-9_.-]+$' and char_length(sealed) <= 20000),
  -- The secret before, which also signs until then.
  sealed_before text,
  signs_both_until timestamptz,
  hint text check (char_length(hint) <= 20),
  actions text[],
  includes_seals boolean not null,
  -- Entries of earlier times are not sent, even if they are written later.
  since timestamptz not null default '-infinity',
  -- It was started at an earlier time than the present, and has not delivered an entry since.
  starts_in_past boolean not null default false,
  created_at timestamptz not null default clock_timestamp(),
  -- Who created, changed or resumed it last: an id as caller() gives it, and the address at that time.
  owner text,
  owner_email text,
  owner_has_account boolean not null default false,
  owner_left_at timestamptz,
  -- Which entries are delivered. Null: none.
  cursor audit_log_private.feed_cursor,
  -- The sequence of the last seal that was delivered.
  seal bigint not null default 0,
  -- How many entries a batch may have: halved when one is rejected, doubled when one is accepted.
  at_once integer not null default 1000 check (at_once between 1 and 1000),
  -- How many entries it has rejected since it last accepted one, and the cursor and the time before the first.
  rejections integer not null default 0,
  rejected_from audit_log_private.feed_cursor,
  rejected_since timestamptz,
  -- The batch that is on its way: entries, seals or test; and where its confirmation leads.
  lease uuid,
  -- When the transaction began that leased it: what was committed before is in the batch.
  leased_at timestamptz,
  leased_until timestamptz,
  batch_what text,
  batch_entries integer,
  batch_has_more boolean not null default true,
  next_cursor audit_log_private.feed_cursor,
  next_seal bigint,
  -- The name of the last batch, whose entries all count as read.
  counted_name text,
  due_at timestamptz not null default clock_timestamp(),
  -- When a test was asked for that has not succeeded yet. Until it does, nothing else is sent.
  test_asked_at timestamptz default clock_timestamp(),
  paused_at timestamptz,
  paused_by text,
  paused_why text,
  failures integer not null default 0,
  failing_since timestamptz,
  -- Since when the log says that it fails.
  told_at timestamptz,
  last_error text,
  last_status integer,
  last_ms integer not null default 0,
  attempts bigint not null default 0,
  entries bigint not null default 0,
  delivered_at timestamptz,
  -- What was committed before is delivered.
  caught_up_at timestamptz,
  primary key (organization_id, id)
  -- No index on due_at: there are few streams, and without one an update of a cursor is HOT.
) with (fillfactor = 40);
comment on table audit_log_private.streams is
  'Where logs are pushed to, how far each has come, and what is on its way. A batch belongs to whoever has its lease.';

create table audit_log_private.stream_attempts (
  organization_id uuid not null,
  stream_id uuid not null,
  slot smallint not null,
  at timestamptz not null,
  what text not null,
  entries integer not null,
  bytes bigint not null,
  ms integer not null,
  status integer,
  error text,
  primary key (organization_id, stream_id, slot),
  foreign key (organization_id, stream_id) references audit_log_private.streams on delete cascade
);
comment on table audit_log_private.stream_attempts is 'The last 50 attempts of each stream, each in its slot.';

create table audit_log_private.rejected_entries (
  organization_id uuid not null,
  stream_id uuid not null,
  created_at timestamptz not null,
  entry_id uuid not null,
  rejected_at timestamptz not null,
  answer text,
  primary key (organization_id, stream_id, created_at, entry_id),
  foreign key (organization_id, stream_id) references audit_log_private.streams on delete cascade
);
comment on table audit_log_private.rejected_entries is 'Entries that a destination rejected: at most 1,000 a stream.';

create table audit_log_private.stream_limits (
  organization_id uuid primary key references audit_log.organizations on delete cascade,
  changed_at timestamptz[] not null default '{}',
  backfilled_at timestamptz
);
comment on table audit_log_private.stream_limits is 'When streams changed in the last hour, or last began in the past.';

-- A copy of the database must not send what its original sends. So streams run in one place only.

create table audit_log_private.stream_home (
  is_only boolean primary key default true check (is_only),
  home text not null,
  -- The Edge Function's SUPABASE_URL, as set_up_streams was told first. Another one gets no batch. Null: any may.
  project_url text,
  function_url text,
  -- Whoever knows it can have the Edge Function deliver what is due, and nothing else.
  trigger_secret text
);
comment on table audit_log_private.stream_home is
  'One row: in which database streams run, and for which Edge Function. Any other sends nothing until adopt_streams().';

create function audit_log_private.stream_home() returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return concat_ws(
    ' ', (pg_control_system()).system_identifier,
    -- In a standby that was promoted, the last checkpoint may be one of the timeline before.
    case when pg_is_in_recovery() then lpad(to_hex((pg_control_checkpoint()).timeline_id), 8, '0')
      else lower(left(pg_walfile_name(pg_current_wal_lsn()), 8)) end,
    (select d.oid from pg_database d where d.datname = current_database()), audit_log_private.log_epoch()
  );
end $$;
comment on function audit_log_private.stream_home is 'The cluster, its timeline, the database, and the log''s epoch.';

insert into audit_log_private.stream_home (home) values (audit_log_private.stream_home());

create function audit_log_private.is_stream_home() returns boolean
language sql stable set search_path = pg_catalog, pg_temp
return exists (select from audit_log_private.stream_home h where h.home = audit_log_private.stream_home());
comment on function audit_log_private.is_stream_home is 'Whether streams run in this database.';

create function audit_log_private.adopt_streams() returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  -- Tells whoever restores a log to adopt that first: it begins another epoch.
  perform audit_log_private.cursor_key('');
  insert into audit_log_private.stream_home as h (home) values (audit_log_private.stream_home())
  on conflict on constraint stream_home_pkey do update set home = excluded.home, project_url = null;
  update audit_log_private.streams s set lease = null, due_at = clock_timestamp() where true;
end $$;
comment on function audit_log_private.adopt_streams is
  'After adopt_restored_log(), in the one copy that customers are to hear from, or with another SUPABASE_URL: streams '
  'run here from now on. Then call set_up_streams.';

create function audit_log_private.stream_host(destination jsonb) returns text
language sql immutable set search_path = pg_catalog, pg_temp
return pg_catalog.lower(substring(destination ->> 'url' from '^https://([^/?#]*)'));
comment on function audit_log_private.stream_host is 'The host of a destination, with its port.';

create function audit_log_private.log_stream_event(
  stream audit_log_private.streams, action text, more jsonb default '{}', may_fail boolean default false
) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  request constant record := audit_log_private.request_context();
begin
  perform from audit_log.organizations o
  where o.id = stream.organization_id and o.logs_key_events and o.closed_at is null;
  if not found then
    return;
  end if;
  insert into audit_log.actions (code, description, target, target_name)
  values
    ('stream_created', 'Somebody began to have this log sent to a destination', 'stream_id', 'name'),
    ('stream_changed', 'Somebody changed or resumed a stream', 'stream_id', 'name'),
    ('stream_paused', 'Somebody, or its destination, paused a stream', 'stream_id', 'name'),
    ('stream_deleted', 'Somebody deleted a stream', 'stream_id', 'name'),
    ('stream_failing', 'A stream has delivered nothing for 15 minutes', 'stream_id', 'name'),
    ('stream_recovered', 'A failing stream delivers again', 'stream_id', 'name')
  on conflict do nothing;
  insert into audit_log.audit_entries (organization_id, action, user_email, agent_name, data)
  values (
    stream.organization_id, log_stream_event.action, coalesce(request.email, request.fallback_email),
    'Audit log streams',
    audit_log_private.fitted(jsonb_strip_nulls(jsonb_build_object(
      'stream_id', stream.id, 'name', stream.name, 'kind', stream.destination ->> 'kind',
      'host', audit_log_private.stream_host(stream.destination)
    )) || more || request.data)
  );
exception
  when query_canceled or others then
    if not may_fail then
      raise;
    end if;
    raise warning 'the log of % has no % of stream %: %', stream.organization_id, action, stream.id, sqlerrm;
end $$;
comment on function audit_log_private.log_stream_event is
  'Logs what happened to a stream. may_fail: a batch that is delivered must be settled.';

-- What is sent.

create type audit_log_private.stream_batch as (
  -- entries, seals or test.
  what text,
  lines text[],
  next_cursor audit_log_private.feed_cursor,
  next_seal bigint,
  has_more boolean
);
comment on type audit_log_private.stream_batch is 'What a stream sends next, and where its confirmation leads.';

create function audit_log_private.next_batch(stream audit_log_private.streams, most_bytes integer)
returns audit_log_private.stream_batch
-- Stable: entries and seals are of one snapshot. A seal that it sees covers entries that it sees, too.
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  query audit_log.page_query;
  newest audit_log_private.reading;
  step audit_log_private.feed_step;
  batch audit_log_private.stream_batch;
  fitting integer;
begin
  batch.what := 'entries';
  batch.next_seal := stream.seal;
  query.since := stream.since;
  query.actions := stream.actions;
  query.page_limit := stream.at_once;
  query := audit_log_private.with_defaults(query);
  if stream.rejections >= 10 then
    -- The newest entry shows whether the destination accepts any.
    query.page_limit := 1;
    query.newest_first := true;
    newest := audit_log_private.read_page(stream.organization_id, query);
    batch.lines := case when newest.entries > 0 then array[btrim(newest.items, '[]')] else '{}' end;
    batch.next_cursor := stream.cursor;
    batch.has_more := newest.entries > 0;
    return batch;
  end if;
  step := audit_log_private.read_feed_from(stream.organization_id, query, stream.cursor);
  select count(*) into strict fitting from (
    select sum(octet_length(l.line) + 1) over (order by l.n) as bytes
    from unnest(step.items) with ordinality as l (line, n)
  ) as l
  where l.bytes <= most_bytes;
  if fitting < cardinality(step.items) then
    query.page_limit := greatest(1, fitting);
    step := audit_log_private.read_feed_from(stream.organization_id, query, stream.cursor);
  end if;
  batch.lines := step.items;
  batch.next_cursor := step.cursor;
  batch.has_more := step.has_more;
  -- Nor while entries that seem rejected may come again.
  if not stream.includes_seals or step.has_more or stream.rejections > 0 then
    return batch;
  end if;
  -- All entries that these seals cover are in this batch or were delivered before it.
  if cardinality(step.items) = 0 then
    select 'seals', coalesce(array_agg(l.line order by l.sequence), '{}'), coalesce(max(l.sequence), stream.seal)
    into batch.what, batch.lines, batch.next_seal
    from (
      select e.sequence, audit_log_private.seal_json(e::audit_log_private.seals)::text as line
      from audit_log_private.seals e
      where e.organization_id = stream.organization_id and e.sequence > stream.seal
      order by e.sequence limit 100
    ) as l;
  end if;
  batch.has_more := batch.next_seal
    < coalesce((audit_log_private.chain_end(stream.organization_id)).sequence, 0);
  return batch;
end $$;
comment on function audit_log_private.next_batch is 'The next entries of a stream in so many bytes, or the next seals.';

-- From supabase/schemas/8_streams/02_stream_queue.sql.

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

-- From supabase/schemas/8_streams/03_manage_streams.sql.

-- Administrators and the platform's server set streams up, and auditors see how they are doing. Secrets come sealed.

create function audit_log_private.stream_state(stream audit_log_private.streams) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  clock constant timestamptz := clock_timestamp();
begin
  return case
    when stream.paused_at is not null then 'paused'
    when not audit_log_private.is_stream_home() then 'restored'
    -- A function that takes batches and ends before it settles them has a lease almost always. None lasts so long.
    when stream.due_at < clock - case
      when stream.lease is not null and stream.leased_until > clock then interval '20 minutes'
      else interval '5 minutes' end
    then 'stalled'
    when stream.test_asked_at is not null then case stream.failures when 0 then 'testing' else 'test_failed' end
    when stream.failing_since < clock - interval '15 minutes' then 'failing'
    when stream.failures > 0 or stream.rejections > 0 then 'retrying'
    when stream.caught_up_at is null or stream.batch_has_more and stream.caught_up_at < clock - interval '1 minute'
      then 'catching_up'
    else 'up_to_date'
  end;
end $$;
comment on function audit_log_private.stream_state is
  'What people are told of a stream. stalled: no Edge Function comes, or none tells the result.';

create function audit_log_private.loses_entries_at(stream audit_log_private.streams, looks boolean) returns timestamptz
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  days constant integer := (
    select o.keep_days from audit_log.organizations o where o.id = stream.organization_id and o.hold_reason is null
  );
  batch audit_log_private.stream_batch;
  day date;
begin
  if days is null or audit_log_private.stream_state(stream) = 'up_to_date' then
    return null;
  end if;
  if looks and stream.paused_at is null and stream.test_asked_at is null then
    stream.at_once := 1;
    stream.includes_seals := false;
    stream.rejections := 0;
    batch := audit_log_private.next_batch(stream, 1);
    -- If there is none for it in what was looked at, it may be the next one.
    day := coalesce(
      left(batch.lines[1]::json ->> 'created_at', 10)::date, ((batch.next_cursor).created_at at time zone 'UTC')::date
    );
  else
    day := greatest(
      stream.since, case when (stream.cursor).seen is null then (stream.cursor).created_at else stream.caught_up_at end
    ) at time zone 'UTC';
    if not isfinite(day) then
      select min(e.created_at) at time zone 'UTC' into day from audit_log.audit_entries e
      where e.organization_id = stream.organization_id;
    end if;
  end if;
  -- The night after the last day on which retention keeps it.
  return (day + days + 1)::timestamp at time zone 'UTC';
end $$;
comment on function audit_log_private.loses_entries_at is
  'When retention begins to delete what a stream has not delivered. Without looks, no entry is read, as whoever gives '
  'it other actions would learn of one without a record.';

create function audit_log_private.stream_json(stream audit_log_private.streams) returns json
language plpgsql stable set search_path = pg_catalog, pg_temp set timezone = 'UTC' as $$
begin
  return json_build_object(
    'id', stream.id, 'name', stream.name, 'destination', stream.destination, 'hint', stream.hint,
    'signs_both_until', case when stream.signs_both_until > clock_timestamp() then stream.signs_both_until end,
    'actions', stream.actions, 'includes_seals', stream.includes_seals,
    'created_at', stream.created_at, 'owner_email', stream.owner_email, 'owner_left_at', stream.owner_left_at,
    'state', audit_log_private.stream_state(stream), 'state_since', coalesce(stream.paused_at, stream.failing_since),
    'paused_by', stream.paused_by, 'paused_why', stream.paused_why,
    'failures', stream.failures, 'last_error', stream.last_error, 'last_status', stream.last_status,
    'next_try_at', case when stream.failures > 0 and stream.paused_at is null then stream.due_at end,
    'delivered_at', stream.delivered_at, 'caught_up_at', stream.caught_up_at,
    'loses_entries_at', audit_log_private.loses_entries_at(stream, looks => false), 'entries', stream.entries,
    'entries_rejected', (
      select count(*) from audit_log_private.rejected_entries r
      where r.organization_id = stream.organization_id and r.stream_id = stream.id
    )
  );
end $$;
comment on function audit_log_private.stream_json is 'A stream as people see it: without its secret.';

create function audit_log_private.list_streams(organization_id text) returns json
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  organization constant uuid := (audit_log_private.allowed_organization(organization_id, for_admins => false)).id;
begin
  return (
    select coalesce(json_agg(audit_log_private.stream_json(s) order by s.created_at, s.id), '[]')
    from audit_log_private.streams s where s.organization_id = organization
  );
end $$;
comment on function audit_log_private.list_streams is
  'The streams of an organization, oldest first. state is testing, test_failed, catching_up, up_to_date, retrying, '
  'failing (for 15 minutes), paused, stalled (the Edge Function does not come) or restored (a copy of the database '
  'sends nothing). What was committed before caught_up_at is delivered. At loses_entries_at, retention begins to '
  'delete what is not. For administrators, auditors and the secret key.';

create function audit_log_private.read_stream(organization_id text, stream_id uuid) returns json
language plpgsql stable security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' as $$
declare
  organization constant uuid := (audit_log_private.allowed_organization(organization_id, for_admins => false)).id;
  stream audit_log_private.streams;
begin
  select s.* into stream from audit_log_private.streams s
  where s.organization_id = organization and s.id = read_stream.stream_id;
  if not found then
    perform audit_log_private.refuse_access();
  end if;
  return json_build_object(
    'stream', audit_log_private.stream_json(stream),
    'attempts', (
      select coalesce(json_agg(json_build_object(
        'at', a.at, 'what', a.what, 'entries', a.entries, 'bytes', a.bytes, 'ms', a.ms, 'status', a.status,
        'error', a.error
      ) order by a.at desc), '[]')
      from audit_log_private.stream_attempts a
      where a.organization_id = stream.organization_id and a.stream_id = stream.id
    ),
    'rejected', (
      select coalesce(json_agg(json_build_object(
        'created_at', audit_log_private.api_time(r.created_at), 'id', r.entry_id, 'answer', r.answer
      ) order by r.created_at, r.entry_id), '[]')
      from audit_log_private.rejected_entries r
      where r.organization_id = stream.organization_id and r.stream_id = stream.id
    )
  );
end $$;
comment on function audit_log_private.read_stream is
  'A stream as list_streams has it, its last 50 attempts, newest first, and the entries that its destination '
  'rejected: {stream, attempts, rejected}. For administrators, auditors and the secret key.';

create function audit_log_private.troubled_streams() returns json
language plpgsql stable set search_path = pg_catalog, pg_temp set timezone = 'UTC' as $$
begin
  return (
    select coalesce(json_agg(json_build_object(
      'organization_id', s.organization_id, 'stream_id', s.id, 'name', s.name, 'state', now.state,
      'state_since', coalesce(s.paused_at, s.failing_since), 'owner_left_at', s.owner_left_at,
      'loses_entries_at', now.loses_at
    ) order by s.created_at), '[]')
    from audit_log_private.streams s
    cross join lateral (
      select
        audit_log_private.stream_state(s) as state, audit_log_private.loses_entries_at(s, looks => true) as loses_at
      offset 0
    ) as now
    where now.state in ('failing', 'stalled', 'restored') or s.owner_left_at is not null
      or now.state = 'paused' and s.last_status = 410 or now.loses_at < clock_timestamp() + interval '7 days'
  );
end $$;
comment on function audit_log_private.troubled_streams is 'For health(): streams that need somebody.';

create function audit_log_private.are_streams_down() returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return (
    with streams as materialized (
      select
        s.organization_id, s.failing_since, audit_log_private.stream_host(s.destination) as host,
        audit_log_private.stream_state(s) as state,
        -- Some fail a moment before the last of the others delivers.
        max(s.delivered_at) over () - interval '10 minutes' as quiet_since
      from audit_log_private.streams s where s.delivered_at is not null and s.paused_at is null
    ),
    -- Later it is for a workday: destinations that are gone, where nobody else has a stream.
    failing as materialized (
      select s.organization_id, s.host from streams s
      where s.state = 'failing' and s.failing_since >= s.quiet_since
        and s.failing_since > clock_timestamp() - interval '7 days'
    )
    select exists (select from streams s where s.state in ('stalled', 'restored'))
      or (select count(distinct f.host) >= 3 from failing f)
      -- One customer alone, with destinations that all answer nothing, wakes nobody, unless no other has a stream.
      and (select count(distinct f.organization_id) from failing f)
        >= (select least(2, count(distinct s.organization_id)) from streams s)
  );
end $$;
comment on function audit_log_private.are_streams_down is 'For health(): whether streams fail for a reason of ours.';

-- What administrators change.

create function audit_log_private.count_stream_change(organization_id uuid, start text default 'now') returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  clock timestamptz;
  limits audit_log_private.stream_limits;
  next_at timestamptz;
begin
  insert into audit_log_private.stream_limits (organization_id) values (count_stream_change.organization_id)
  on conflict do nothing;
  select l.* into strict limits from audit_log_private.stream_limits l
  where l.organization_id = count_stream_change.organization_id for update;
  clock := clock_timestamp();
  limits.changed_at := array(
    select t from unnest(limits.changed_at) as t where t between clock - interval '1 hour' and clock order by t
  );
  if cardinality(limits.changed_at) >= 20 then
    next_at := limits.changed_at[1] + interval '1 hour';
  elsif start not in ('now', 'continue') then
    next_at := case when limits.backfilled_at < clock then limits.backfilled_at + interval '1 day' end;
  end if;
  if next_at > clock then
    raise exception
      'the streams of an organization can be tested and changed 20 times an hour, and begin at an earlier time once a '
      'day: try again after %', audit_log_private.api_time(next_at)
      using errcode = 'AL006';
  end if;
  update audit_log_private.stream_limits l set changed_at = limits.changed_at || clock
  where l.organization_id = limits.organization_id;
end $$;
comment on function audit_log_private.count_stream_change is 'Counts a change or a test. Raises AL006 if too many.';

create function audit_log_private.check_destination(destination jsonb) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
  -- The Edge Function has more rules for hosts: here, only what is not ASCII, which lower() may change.
  url constant text[] := regexp_match(destination ->> 'url', '^https://[A-Za-z0-9.-]+(?::([0-9]{1,5}))?(/[!-~]*)?$');
  mistake constant text := case
    when (
      destination ->> 'kind' ~ '^[a-z0-9_]{1,30}$' and octet_length(destination::text) <= 2000 and not exists (
        select from jsonb_each(destination) as f
        where jsonb_typeof(f.value) <> 'string'
      )
    ) is not true
      then 'a destination has a kind and other fields, all strings, in 2,000 bytes at most'
    when url is null
      then 'the url of a destination is written as https://siem.example.com/in: https, no user, no spaces, ASCII only'
    when url[1]::integer not between 1024 and 65535 and url[1]::integer <> 443
      then 'the url of a destination has no port but 443 or one from 1024 to 65535'
  end;
begin
  if mistake is not null then
    raise exception '%', mistake using errcode = 'invalid_parameter_value';
  end if;
end $$;
comment on function audit_log_private.check_destination is 'Raises 22023 unless a destination has the right form.';

create function audit_log_private.started_at(stream audit_log_private.streams, start text)
returns audit_log_private.streams
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  stream.cursor := null;
  stream.caught_up_at := null;
  stream.batch_has_more := true;
  -- What is on its way must not move the cursor.
  stream.lease := null;
  stream.rejections := 0;
  stream.starts_in_past := start <> 'now';
  stream.since := case when start in ('now', 'beginning') then '-infinity' else audit_log_private.utc_time(start) end;
  if start = 'now' then
    stream.cursor := (audit_log_private.log_snapshot(), null, null, null, null)::audit_log_private.feed_cursor;
    stream.caught_up_at := now();
  elsif (start = 'beginning' or isfinite(stream.since) and stream.since < clock_timestamp()) is not true then
    raise exception 'a stream must start now, at the beginning, or at a past day or time'
      using errcode = 'invalid_parameter_value';
  end if;
  -- From the first seal of these days on, the chain is sent without a gap.
  stream.seal := coalesce(
    (
      select min(s.sequence) - 1 from audit_log_private.seals s
      where s.organization_id = stream.organization_id and start <> 'now'
        and s.day >= (stream.since at time zone 'UTC')::date
    ),
    (audit_log_private.chain_end(stream.organization_id)).sequence, 0
  );
  return stream;
end $$;
comment on function audit_log_private.started_at is 'A stream at the cursor where it starts.';

create function audit_log_private.own_stream(organization_id text, stream_id uuid) returns audit_log_private.streams
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  organization constant uuid := (audit_log_private.allowed_organization(organization_id, for_admins => true)).id;
  stream audit_log_private.streams;
begin
  select s.* into stream from audit_log_private.streams s
  where s.organization_id = organization and s.id = stream_id for update;
  if not found then
    perform audit_log_private.refuse_access();
  end if;
  return stream;
end $$;
comment on function audit_log_private.own_stream is 'A stream that the caller administers, locked, or raises 42501.';

create function audit_log_private.with_settings(stream audit_log_private.streams, given jsonb)
returns audit_log_private.streams
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  unknown jsonb;
  is_elsewhere boolean := false;
begin
  if (jsonb_typeof(given) = 'object') is not true then
    raise exception 'give a stream as an object with name and destination' using errcode = 'invalid_parameter_value';
  end if;
  unknown := given - '{id,start,name,destination,sealed,hint,signs_both,actions,includes_seals}'::text[];
  if unknown <> '{}' or (
    given ->> 'sealed' ~ '^[A-Za-z0-9_.-]+$' and char_length(given ->> 'sealed') <= 20000
    and given ->> 'hint' ~ '^[!-~…]{1,20}$'
  ) is false then
    raise exception 'sealed must be what the console seals, hint at most 20 characters of the secret; there is no %',
      coalesce((select string_agg(k, ', ') from jsonb_object_keys(unknown) as k), 'other field')
      using errcode = 'invalid_parameter_value';
  end if;
  if stream.name is null or given ? 'name' then
    stream.name := audit_log_private.visible_name(given ->> 'name', 'a stream');
  end if;
  if stream.destination is null or given ? 'destination' then
    perform audit_log_private.check_destination(given -> 'destination');
    is_elsewhere := (stream.destination ->> 'kind', audit_log_private.stream_host(stream.destination))
      is distinct from (given #>> '{destination,kind}', audit_log_private.stream_host(given -> 'destination'));
    if is_elsewhere and stream.sealed is not null and given ->> 'sealed' is null then
      raise exception 'the secret was given for another kind or host: give it again'
        using errcode = 'invalid_parameter_value';
    end if;
    stream.destination := given -> 'destination';
  end if;
  if given ? 'sealed' then
    stream.sealed_before := case when (given ->> 'signs_both')::boolean and not is_elsewhere then stream.sealed end;
    stream.signs_both_until := case when stream.sealed_before <> '' then clock_timestamp() + interval '1 day' end;
    stream.sealed := given ->> 'sealed';
    stream.hint := given ->> 'hint';
  end if;
  if given ? 'actions' then
    stream.actions := array(select jsonb_array_elements_text(nullif(given -> 'actions', 'null')));
    stream.actions := nullif(stream.actions, '{}');
    perform audit_log_private.require_accepted((audit_log_private.count_matching(
      stream.organization_id, jsonb_populate_record(
        audit_log_private.with_defaults(null), jsonb_build_object('actions', stream.actions)
      )
    )).decision);
  end if;
  stream.includes_seals := coalesce((given ->> 'includes_seals')::boolean, stream.includes_seals, false);
  return stream;
end $$;
comment on function audit_log_private.with_settings is
  'A stream with what an administrator gives. Raises 22023 if it is not valid.';

create function audit_log_private.create_stream(organization_id text, stream jsonb) returns json
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  organization constant uuid := audit_log_private.administered_organization(organization_id);
  start constant text := coalesce(stream ->> 'start', 'now');
  me constant record := audit_log_private.acting_person();
  made audit_log_private.streams;
begin
  perform audit_log_private.count_stream_change(organization, start);
  perform from audit_log_private.streams s where s.organization_id = organization
  having count(*) >= 5;
  if found then
    raise exception 'an organization has at most five streams: delete one first' using errcode = 'AL005';
  end if;
  made.organization_id := organization;
  made := audit_log_private.started_at(audit_log_private.with_settings(made, stream), start);
  insert into audit_log_private.streams as s (
    organization_id, id, name, destination, sealed, hint, actions, includes_seals,
    since, starts_in_past, cursor, seal, caught_up_at, owner, owner_email, owner_has_account
  )
  values (
    organization, coalesce((stream ->> 'id')::uuid, gen_random_uuid()), made.name, made.destination, made.sealed,
    made.hint, made.actions, made.includes_seals, made.since, made.starts_in_past, made.cursor, made.seal,
    made.caught_up_at, me.id, me.email, audit_log_private.has_account(me.id)
  )
  returning s.* into made;
  perform audit_log_private.log_stream_event(made, 'stream_created', jsonb_build_object('start', start));
  return audit_log_private.stream_json(made);
end $$;
comment on function audit_log_private.create_stream is
  'Creates a stream, which is tested, and then delivers: {name, destination: {kind, url, …}, sealed, hint, actions, '
  'includes_seals, start, id}. sealed is its secret, sealed for the Edge Function; hint its end, to recognize it; '
  'start now (the default), beginning, or a day or time, from which on entries are sent. Without actions, all are. '
  'To retry safely, send your own id: a repeat fails with 23505. For administrators and the secret key.';

create function audit_log_private.change_stream(organization_id text, stream_id uuid, change jsonb) returns json
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  clock constant timestamptz := clock_timestamp();
  before constant audit_log_private.streams := audit_log_private.own_stream(organization_id, stream_id);
  me constant record := audit_log_private.acting_person();
  after audit_log_private.streams;
  is_other boolean;
begin
  perform audit_log_private.count_stream_change(before.organization_id);
  after := audit_log_private.with_settings(before, change - '{id,start}'::text[]);
  is_other := (after.destination, after.sealed) is distinct from (before.destination, before.sealed);
  if is_other then
    perform audit_log_private.take_rejections_back(before);
  end if;
  update audit_log_private.streams s
  set name = after.name, destination = after.destination, sealed = after.sealed, hint = after.hint,
    sealed_before = after.sealed_before, signs_both_until = after.signs_both_until,
    actions = after.actions, includes_seals = after.includes_seals,
    owner = me.id, owner_email = me.email, owner_has_account = audit_log_private.has_account(me.id),
    owner_left_at = null, counted_name = null,
    test_asked_at = case when is_other then clock else s.test_asked_at end,
    failures = case when is_other then 0 else s.failures end, due_at = case when is_other then clock else s.due_at end,
    -- What is on its way to the former destination does not count.
    lease = case when is_other then null else s.lease end
  where s.organization_id = before.organization_id and s.id = before.id
  returning s.* into strict after;
  -- Not the address: readers of the log see this, and some addresses have a token.
  perform audit_log_private.log_stream_event(after, 'stream_changed', jsonb_build_object(
    'fields', (select coalesce(jsonb_agg(k), '[]') from jsonb_object_keys(change) as k)
  ));
  return audit_log_private.stream_json(after);
end $$;
comment on function audit_log_private.change_stream is
  'Changes the fields of a stream that are given, as create_stream takes them: not id and start. Another destination '
  'or secret is tested first; another kind or host needs the secret again. With signs_both, the former secret signs, '
  'too, for a day. The caller becomes the stream''s owner. For administrators and the secret key.';

create function audit_log_private.retry_stream(organization_id text, stream_id uuid, test boolean default false)
returns json
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  stream audit_log_private.streams := audit_log_private.own_stream(organization_id, stream_id);
begin
  perform audit_log_private.count_stream_change(stream.organization_id);
  update audit_log_private.streams s
  set due_at = clock_timestamp(), test_asked_at = case when test then clock_timestamp() else s.test_asked_at end
  where s.organization_id = stream.organization_id and s.id = stream.id
  returning s.* into strict stream;
  return audit_log_private.stream_json(stream);
end $$;
comment on function audit_log_private.retry_stream is
  'Tries a stream in the next run, without waiting longer: with test by a test, which is sent before anything else. '
  'For administrators and the secret key.';

create function audit_log_private.pause_stream(organization_id text, stream_id uuid) returns json
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  stream audit_log_private.streams := audit_log_private.own_stream(organization_id, stream_id);
  me constant record := audit_log_private.acting_person();
begin
  if stream.paused_at is null then
    update audit_log_private.streams s
    set paused_at = clock_timestamp(), paused_by = coalesce(me.email, me.id, 'the platform')
    where s.organization_id = stream.organization_id and s.id = stream.id
    returning s.* into strict stream;
    perform audit_log_private.log_stream_event(stream, 'stream_paused');
  end if;
  return audit_log_private.stream_json(stream);
end $$;
comment on function audit_log_private.pause_stream is
  'Stops a stream after the batch on its way. For administrators and the secret key.';

create function audit_log_private.resume_stream(
  organization_id text, stream_id uuid, start text default 'continue'
) returns json
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  stream audit_log_private.streams := audit_log_private.own_stream(organization_id, stream_id);
  me constant record := audit_log_private.acting_person();
begin
  perform audit_log_private.count_stream_change(stream.organization_id, start);
  if start <> 'continue' then
    stream := audit_log_private.started_at(stream, start);
    -- They come again.
    delete from audit_log_private.rejected_entries r
    where r.organization_id = stream.organization_id and r.stream_id = stream.id and start <> 'now'
      and r.created_at >= stream.since;
  end if;
  update audit_log_private.streams s
  set cursor = stream.cursor, since = stream.since, seal = stream.seal, caught_up_at = stream.caught_up_at,
    starts_in_past = stream.starts_in_past, rejections = stream.rejections,
    batch_has_more = stream.batch_has_more, lease = stream.lease,
    paused_at = null, paused_by = null, paused_why = null, failures = 0, failing_since = null,
    due_at = clock_timestamp(), owner = me.id, owner_email = me.email,
    owner_has_account = audit_log_private.has_account(me.id), owner_left_at = null, counted_name = null
  where s.organization_id = stream.organization_id and s.id = stream.id
  returning s.* into strict stream;
  perform audit_log_private.log_stream_event(stream, 'stream_changed', jsonb_build_object('resumed', start));
  return audit_log_private.stream_json(stream);
end $$;
comment on function audit_log_private.resume_stream is
  'Ends the pause of a stream: it continues where it was, or starts as create_stream says, which may leave entries out '
  'or send some again. The caller becomes the stream''s owner. For administrators and the secret key.';

create function audit_log_private.delete_stream(organization_id text, stream_id uuid) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  stream constant audit_log_private.streams := audit_log_private.own_stream(organization_id, stream_id);
begin
  delete from audit_log_private.streams s
  where s.organization_id = stream.organization_id and s.id = stream.id;
  perform audit_log_private.log_stream_event(stream, 'stream_deleted');
end $$;
comment on function audit_log_private.delete_stream is 'Deletes a stream. For administrators and the secret key.';

select audit_log_private.serve(name)
from unnest('{list_streams,read_stream,create_stream,change_stream}'::text[]
  || '{retry_stream,pause_stream,resume_stream,delete_stream}') as name;

-- What the rest asks of this room: these replace what 7_running/02_rooms.sql has.

create or replace function audit_log_private.delete_more_of(organization_id uuid) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  delete from audit_log_private.streams s where s.organization_id = delete_more_of.organization_id;
end $$;

create or replace function audit_log_private.has_more_readers(organization_id uuid) returns boolean
language sql stable set search_path = pg_catalog, pg_temp
return exists (
  select from audit_log_private.streams s
  where s.organization_id = has_more_readers.organization_id and s.paused_at is null
);

create or replace function audit_log_private.mark_more_of_leaver(organization_id uuid, person text, revoke boolean)
returns jsonb
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  clock constant timestamptz := clock_timestamp();
  stream audit_log_private.streams;
  streams integer := 0;
begin
  for stream in
    update audit_log_private.streams s
    set owner_left_at = coalesce(s.owner_left_at, clock),
      paused_at = case when revoke then coalesce(s.paused_at, clock) else s.paused_at end,
      paused_why = case when revoke and s.paused_at is null then 'its owner has left' else s.paused_why end
    where s.organization_id = mark_more_of_leaver.organization_id and s.owner = person
    returning s.*
  loop
    streams := streams + 1;
    if stream.paused_at = clock then
      perform audit_log_private.log_stream_event(
        stream, 'stream_paused', jsonb_build_object('reason', stream.paused_why)
      );
    end if;
  end loop;
  return jsonb_build_object('streams', streams);
end $$;

create or replace function audit_log_private.mark_more_without_account() returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  perform audit_log_private.mark_more_of_leaver(s.organization_id, s.owner, revoke => false)
  from audit_log_private.streams s
  where s.owner_has_account and s.owner_left_at is null and not audit_log_private.has_account(s.owner);
end $$;

create or replace function audit_log_private.more_findings() returns jsonb
language sql stable set search_path = pg_catalog, pg_temp
return pg_catalog.jsonb_build_object(
  'troubled_streams', audit_log_private.troubled_streams(), 'streams_down', audit_log_private.are_streams_down()
);

create or replace function audit_log_private.more_alerts() returns table (severity text, field text)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return query values ('page', 'streams_down'), ('workday', 'troubled_streams');
end $$;

create or replace function audit_log_private.more_metrics()
returns table (name text, help text, labels jsonb, value double precision)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return query
    select
      'audit_log_stream_lag_seconds', 'Since a stream last had delivered everything, or was made; 0 while it has.',
      jsonb_build_object('organization_id', o.platform_id, 'stream_id', s.id, 'state', now.state),
      case when now.state = 'up_to_date' then 0
        else extract(epoch from clock_timestamp() - coalesce(s.caught_up_at, s.created_at)) end::double precision
    from audit_log_private.streams s
    join audit_log.organizations o on o.id = s.organization_id
    cross join lateral (select audit_log_private.stream_state(s) as state offset 0) as now;
end $$;

-- From supabase/schemas/9_privileges/01_none.sql.

-- Who may do what. SECURITY.md has the same as a table, which a test compares with the database.
--
-- Postgres lets everybody execute a new function, and older projects grant everything new to everybody. So all of
-- it is taken away first, each time. These files end every migration that adds a table or a function.

do $$
begin
  execute (
    select string_agg(format('alter table %s enable row level security', c.oid::regclass), ';') from pg_class c
    where c.relnamespace in ('audit_log'::regnamespace, 'audit_log_private'::regnamespace) and c.relkind = 'r'
  );
  -- Statistics (pg_stats) would show names, ids and addresses, also of who was deleted. Plans need those of actions.
  execute coalesce((
    select string_agg(format('alter table %s alter %I set statistics 0', c.oid::regclass, a.attname), ';')
    from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relnamespace in ('audit_log'::regnamespace, 'audit_log_private'::regnamespace) and c.relkind = 'r'
      and a.attnum > 0 and a.atttypid in ('text'::regtype, 'text[]'::regtype, 'jsonb'::regtype, 'inet'::regtype)
      and a.attname not in ('action', 'code') and coalesce(a.attstattarget, -1) <> 0
  ), '');
end $$;

revoke all on all tables in schema audit_log, audit_log_private from public, anon, authenticated, service_role;

revoke all on all sequences in schema audit_log, audit_log_private from public, anon, authenticated, service_role;

revoke all on all functions in schema audit_log, audit_log_private from public, anon, authenticated, service_role;

-- From supabase/schemas/9_privileges/02_log.sql.

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

-- From supabase/schemas/9_privileges/03_api.sql.

-- The Edge Function answers requests. People manage keys, and so does the platform's server.

grant execute on function audit_log.public_audit_log to service_role;

grant execute on function audit_log.list_api_keys, audit_log_private.list_api_keys,
  audit_log.create_api_key, audit_log_private.create_api_key,
  audit_log.rotate_api_key, audit_log_private.rotate_api_key,
  audit_log.revoke_api_key, audit_log_private.revoke_api_key
to authenticated, service_role;

grant execute on function audit_log.api_key_usage, audit_log_private.api_key_usage to authenticated;

-- From supabase/schemas/9_privileges/04_console.sql.

-- What people call in the console, and its namesakes, which it calls.

grant execute on function audit_log.list_organizations, audit_log_private.list_organizations,
  audit_log.read_audit_log, audit_log_private.read_audit_log,
  audit_log.read_entry, audit_log_private.read_entry,
  audit_log.find_persons, audit_log_private.find_persons,
  audit_log.daily_entry_counts, audit_log_private.daily_entry_counts,
  audit_log.list_actions, audit_log_private.list_actions,
  audit_log.list_seals, audit_log_private.list_seals
to authenticated;

-- From supabase/schemas/9_privileges/05_running.sql.

-- The platform's server says who has left. The rest is for the owner, or for the role of a monitoring system.

grant execute on function audit_log.person_left to service_role;

-- From supabase/schemas/9_privileges/06_streams.sql.

-- The Edge Function delivers streams. People manage them, and so does the platform's server.

grant execute on function audit_log.take_batch, audit_log.settle_batch to service_role;

grant execute on function audit_log.list_streams, audit_log_private.list_streams,
  audit_log.read_stream, audit_log_private.read_stream,
  audit_log.create_stream, audit_log_private.create_stream,
  audit_log.change_stream, audit_log_private.change_stream,
  audit_log.retry_stream, audit_log_private.retry_stream,
  audit_log.pause_stream, audit_log_private.pause_stream,
  audit_log.resume_stream, audit_log_private.resume_stream,
  audit_log.delete_stream, audit_log_private.delete_stream
to authenticated, service_role;
