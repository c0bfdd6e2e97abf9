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
