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
