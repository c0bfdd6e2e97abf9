-- Seals. Anyone who keeps a seal outside the database can show later whether the log was changed.
--
-- Each finished UTC day of an organization gets a seal, a hash of its entries, as docs/verifying.md says. (In blocks of
-- 1000 lines: Postgres cannot hash piece by piece, and a day may be larger than memory.)
--
-- A day that was written to since is sealed again. The new seal never covers up a silent change: first, the entries
-- that the old seal's snapshot saw are hashed again. If the hash differs, the day gets no seal and is marked as
-- altered. If some of them were removed, no hash of the rest is known. Then the checksum tells: that of the seal must
-- be that of the rest and of what was removed, which each deletion writes to removed_entries until the next seal. Only
-- once an altered day was emptied openly, a seal says so.

create table audit_log_private.seals (
  organization_id uuid not null references audit_log.organizations,
  sequence bigint not null,
  day date not null,
  entries bigint not null check (entries >= 0),
  -- What the day gained and lost since its seal before; 0 in its first seal.
  added bigint not null check (added >= 0),
  removed bigint not null check (removed >= 0),
  sha256 text not null check (sha256 ~ '^[0-9a-f]{64}$'),
  sealed_at timestamptz not null,
  -- The seal with the sequence before; 64 zeros in the first.
  previous text not null check (previous ~ '^[0-9a-f]{64}$'),
  seal text not null check (seal ~ '^[0-9a-f]{64}$'),
  -- What the seal covers: the entries that this snapshot sees, and the sum (xor) of their checksums.
  snapshot pg_snapshot not null,
  checksum bit(256) not null,
  primary key (organization_id, sequence)
);
comment on table audit_log_private.seals is 'The chain of an organization''s seals. The last one of a day counts.';

create index seals_day_idx on audit_log_private.seals (organization_id, day, sequence);

create trigger refuse_change
  before update or truncate on audit_log_private.seals
  for each statement execute function audit_log_private.refuse_change('seals are append-only');

create function audit_log_private.check_seal() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  last_of_chain constant audit_log_private.seals := audit_log_private.chain_end(new.organization_id);
  last_of_day audit_log_private.seals;
begin
  select s.* into last_of_day from audit_log_private.seals s
  where s.organization_id = new.organization_id and s.day = new.day
  order by s.sequence desc limit 1;
  if new.sequence <> coalesce(last_of_chain.sequence, 0) + 1
    or new.previous <> coalesce(last_of_chain.seal, repeat('0', 64))
    or new.sealed_at < last_of_chain.sealed_at
    or last_of_day.sequence is null and new.added + new.removed > 0
    or last_of_day.sequence is not null and (
      new.added + new.removed = 0 or new.entries <> last_of_day.entries + new.added - new.removed
    )
  then
    raise exception 'seal % of % breaks the rules of the chain', new.sequence, to_char(new.day, 'YYYY-MM-DD')
      using errcode = 'check_violation';
  end if;
  return new;
end $$;
comment on function audit_log_private.check_seal is 'Refuses a seal that breaks the rules of docs/verifying.md.';

create function audit_log_private.refuse_deletion_of_seal() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform from audit_log.organizations o where o.id = old.organization_id;
  if found then
    raise exception 'seals is append-only: DELETE refused while the organization % is there', old.organization_id
      using errcode = 'insufficient_privilege';
  end if;
  return null;
end $$;
comment on function audit_log_private.refuse_deletion_of_seal is 'Keeps seals while their organization exists.';

create trigger check_seal
  before insert on audit_log_private.seals
  for each row execute function audit_log_private.check_seal();

-- Deferrable, because delete_organization has to delete the seals before the organization they refer to.
create constraint trigger refuse_deletion
  after delete on audit_log_private.seals deferrable initially immediate
  for each row execute function audit_log_private.refuse_deletion_of_seal();

-- Without settings and as an expression, so that Postgres inlines it.
create function audit_log_private.entry_checksum(entry_line text) returns bit
language sql stable
return ('x' || pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(entry_line, 'UTF8')), 'hex'))::bit(256);
comment on function audit_log_private.entry_checksum is 'The SHA-256 of an entry''s line, as bits.';

-- No foreign key, because it would be checked for each row.
create table audit_log_private.removed_entries (
  organization_id uuid not null,
  day date not null,
  position bigint generated always as identity,
  -- That of the entry: whether the last seal has it.
  transaction_id xid8 not null,
  -- That of the deletion: whether the last seal declares it.
  removed_in xid8 not null default audit_log_private.transaction_number(),
  checksum bit(256) not null,
  primary key (organization_id, day, position)
);
comment on table audit_log_private.removed_entries is 'The checksums of what was deleted since the last seal.';

create function audit_log_private.note_removed_entries() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  insert into audit_log_private.removed_entries (organization_id, day, transaction_id, checksum)
  select
    c.organization_id, (c.created_at at time zone interval '0')::date, c.transaction_id,
    audit_log_private.entry_checksum(audit_log_private.entry_line(c::audit_log.audit_entries))
  from changed c
  -- Of an organization that leaves, no day is sealed again.
  where c.organization_id not in (select o.id from audit_log.organizations o where o.leaving_at is not null);
  return null;
end $$;
comment on function audit_log_private.note_removed_entries is 'Notes what the next seals declare as removed.';

create trigger note_removed
  after delete on audit_log.audit_entries referencing old table as changed
  for each statement execute function audit_log_private.note_removed_entries();

create table audit_log_private.sealed_days (
  organization_id uuid not null references audit_log.organizations on delete cascade,
  day date not null,
  -- When the day is compared with its seal again.
  check_at timestamptz not null,
  -- When the day was first found altered.
  altered_at timestamptz,
  -- By how many entries the counts were wrong.
  miscounted bigint not null,
  -- When a seal first declared some of its entries as removed; null if none was, or all were.
  reduced_at timestamptz,
  -- The latest day that had been sealed when this one first was; null unless that is a later day.
  sealed_after date,
  primary key (organization_id, day)
);
comment on table audit_log_private.sealed_days is 'The last comparison of each sealed day with its seal.';

create index sealed_days_check_idx on audit_log_private.sealed_days (organization_id, check_at);

create index sealed_days_altered_idx on audit_log_private.sealed_days (organization_id, day)
  where altered_at is not null or miscounted <> 0 or reduced_at is not null or sealed_after is not null;

create table audit_log_private.days_to_seal (
  organization_id uuid not null references audit_log.organizations on delete cascade,
  day date not null,
  queued_at timestamptz not null default clock_timestamp(),
  primary key (organization_id, day)
);
comment on table audit_log_private.days_to_seal is 'Finished days that were written to since their last seal.';

create function audit_log_private.queue_missed_days(organization_id uuid) returns boolean
-- The settings are those of read_page.
language plpgsql volatile set search_path = pg_catalog, pg_temp
  set plan_cache_mode = 'force_generic_plan' set jit = off as $$
declare
  clock constant timestamptz := clock_timestamp();
  today constant date := clock at time zone 'UTC';
  gap record;
  missed record;
  days integer := 0;
begin
  for gap in
    select s.start_day, s.end_day
    from (
      select d.day + 1 as start_day, least(lead(d.day) over (order by d.day), today) as end_day
      from (
        -- The API has no day before the year 1.
        select date '0001-01-01' - 1 as day
        union all
        select d.day from audit_log_private.sealed_days d
        where d.organization_id = queue_missed_days.organization_id
      ) as d
    ) as s
    where s.start_day < s.end_day
  loop
    loop
      select
        (e.created_at at time zone 'UTC')::date as day,
        pg_visible_in_snapshot(e.transaction_id, audit_log_private.log_snapshot()) as is_seen
      into missed
      from audit_log.audit_entries e
      where e.organization_id = queue_missed_days.organization_id
        and e.created_at >= gap.start_day::timestamp at time zone 'UTC'
        and e.created_at < gap.end_day::timestamp at time zone 'UTC'
      order by e.created_at, e.id limit 1;
      exit when not found;
      gap.start_day := missed.day + 1;
      -- Days with counts that a writer holds are left for the next run.
      perform from audit_log_private.entry_counts c
      where c.organization_id = queue_missed_days.organization_id and c.day = missed.day and c.writer_pid <> 0;
      continue when found;
      if missed.is_seen then
        insert into audit_log_private.days_to_seal (organization_id, day)
        values (queue_missed_days.organization_id, missed.day)
        on conflict do nothing;
      else
        -- No seal can have the entry: its transaction_id was made by hand.
        insert into audit_log_private.sealed_days (organization_id, day, check_at, altered_at, miscounted)
        values (queue_missed_days.organization_id, missed.day, clock + interval '30 days', clock, 0);
      end if;
      days := days + 1;
      -- As many as one piece seals.
      if days = 200 then
        return true;
      end if;
    end loop;
  end loop;
  return days > 0;
end $$;
comment on function audit_log_private.queue_missed_days is
  'Queues finished days that have entries and no seal, although no count tells. Returns whether there are any.';

create function audit_log_private.seal_day(organization_id uuid, day date) returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  last_of_day audit_log_private.seals;
  last_of_chain audit_log_private.seals;
  sequence bigint;
  previous text;
  found_now record;
  is_first boolean;
  is_altered boolean;
  sealed_after constant date := (
    select max(s.day) from audit_log_private.sealed_days s
    where s.organization_id = seal_day.organization_id and s.day > seal_day.day
  );
  clock timestamptz := date_trunc('milliseconds', clock_timestamp());
  -- Each day has one night of 30. Less 12 hours: an upkeep may begin earlier than the one before.
  next_check constant timestamptz :=
    clock + make_interval(days => 30 - ((clock at time zone 'UTC')::date - day) % 30, hours => -12);
begin
  select s.* into last_of_day from audit_log_private.seals s
  where s.organization_id = seal_day.organization_id and s.day = seal_day.day
  order by s.sequence desc limit 1;
  is_first := not found;
  found_now := audit_log_private.examine_day(organization_id, day, last_of_day.snapshot);
  if is_first and found_now.entries = 0 and found_now.by_counts = 0 then
    -- Without entries there is nothing to seal. If the day was sealed before, somebody has deleted its seal: altered.
    update audit_log_private.sealed_days d set check_at = next_check, altered_at = coalesce(d.altered_at, clock)
    where d.organization_id = seal_day.organization_id and d.day = seal_day.day;
    perform audit_log_private.forget_removed_entries(organization_id, day, found_now.snapshot);
    return 0;
  end if;
  is_altered := not is_first and (
    -- Without removals, the hash says it, which is stronger than a sum.
    case
      when found_now.removed = 0 then found_now.sealed_sha256 <> last_of_day.sha256
      else found_now.sealed_checksum <> last_of_day.checksum
    end
    or found_now.entries <> last_of_day.entries + found_now.added - found_now.removed
  );

  insert into audit_log_private.sealed_days as d (
    organization_id, day, check_at, altered_at, miscounted, reduced_at, sealed_after
  )
  values (
    seal_day.organization_id, seal_day.day, next_check, case when is_altered then clock end,
    found_now.entries - found_now.by_counts,
    case when not is_first and found_now.removed > 0 then clock end, sealed_after
  )
  on conflict on constraint sealed_days_pkey do update
  set check_at = excluded.check_at,
    altered_at = coalesce(d.altered_at, excluded.altered_at),
    miscounted = excluded.miscounted,
    reduced_at = case when found_now.entries > 0 then coalesce(d.reduced_at, excluded.reduced_at) end;
  if is_altered and found_now.entries = 0 and found_now.removed > 0 then
    -- It stays altered. But the chain says that it is empty, or retention would look like somebody else's deletion.
    found_now.removed := last_of_day.entries + found_now.added;
  elsif is_altered or not is_first and found_now.added = 0 and found_now.removed = 0 then
    return found_now.entries;
  end if;

  last_of_chain := audit_log_private.chain_end(organization_id);
  sequence := coalesce(last_of_chain.sequence, 0) + 1;
  previous := coalesce(last_of_chain.seal, repeat('0', 64));
  -- A clock that was set back breaks no chain.
  clock := greatest(clock, last_of_chain.sealed_at);
  insert into audit_log_private.seals (
    organization_id, sequence, day, entries, added, removed, sha256, sealed_at, previous, seal, snapshot, checksum
  )
  values (
    seal_day.organization_id, sequence, seal_day.day, found_now.entries, found_now.added, found_now.removed,
    found_now.sha256, clock, previous,
    encode(sha256(convert_to(concat_ws(
      ' ', 1, previous, sequence, to_char(seal_day.day, 'YYYY-MM-DD'), found_now.entries, found_now.added,
      found_now.removed, found_now.sha256, audit_log_private.api_time(clock)
    ), 'UTF8')), 'hex'),
    found_now.snapshot, found_now.checksum
  );
  perform audit_log_private.forget_removed_entries(organization_id, day, found_now.snapshot);
  return found_now.entries;
end $$;
comment on function audit_log_private.seal_day is 'Seals a day, or marks it as altered. Returns its number of entries.';

create function audit_log_private.forget_removed_entries(organization_id uuid, day date, snapshot pg_snapshot)
returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  delete from audit_log_private.removed_entries r
  where r.organization_id = forget_removed_entries.organization_id and r.day = forget_removed_entries.day
    and pg_visible_in_snapshot(r.removed_in, snapshot);
end $$;
comment on function audit_log_private.forget_removed_entries is 'Deletes what the last seal of a day declares.';

create function audit_log_private.examine_day(
  organization_id uuid, day date, sealed_snapshot pg_snapshot,
  out snapshot pg_snapshot, out entries bigint, out sha256 text, out checksum bit, out sealed_sha256 text,
  out sealed_checksum bit, out added bigint, out removed bigint, out by_counts bigint
)
-- Stable: all its statements see one snapshot.
language plpgsql stable set search_path = pg_catalog, pg_temp
  set plan_cache_mode = 'force_generic_plan' set jit = off as $$
declare
  gone record;
begin
  snapshot := audit_log_private.log_snapshot();
  by_counts := (
    select coalesce(sum(c.entries), 0) from audit_log_private.entry_counts c
    where c.organization_id = examine_day.organization_id and c.day = examine_day.day
  );
  select h.entries, h.sha256, h.checksum into entries, sha256, checksum
  from audit_log_private.hash_day(organization_id, day, coalesce(sealed_snapshot, snapshot)) as h;
  added := 0;
  removed := 0;
  if sealed_snapshot is null then
    return;
  end if;
  sealed_sha256 := sha256;
  added := (
    select count(*) from audit_log.audit_entries e
    where e.organization_id = examine_day.organization_id
      and e.created_at >= day::timestamp at time zone 'UTC' and e.created_at < (day + 1)::timestamp at time zone 'UTC'
      and not pg_visible_in_snapshot(e.transaction_id, sealed_snapshot)
  );
  select
    count(*) as entries,
    count(*) filter (where not pg_visible_in_snapshot(r.transaction_id, sealed_snapshot)) as late_entries,
    coalesce(
      bit_xor(r.checksum) filter (where pg_visible_in_snapshot(r.transaction_id, sealed_snapshot)), 0::bit(256)
    ) as checksum
  into strict gone
  from audit_log_private.removed_entries r
  where r.organization_id = examine_day.organization_id and r.day = examine_day.day
    and not pg_visible_in_snapshot(r.removed_in, sealed_snapshot);
  sealed_checksum := checksum # gone.checksum;
  if added > 0 then
    select h.entries, h.sha256, h.checksum into entries, sha256, checksum
    from audit_log_private.hash_day(organization_id, day, snapshot) as h;
  end if;
  -- An entry that came late and was removed again counts as both.
  added := added + gone.late_entries;
  removed := gone.entries;
end $$;
comment on function audit_log_private.examine_day is
  'What a day holds, by its entries and by the counts; what it held when it was last sealed, with those that were '
  'removed since; and how many were added and removed since.';

create function audit_log_private.hash_day(
  organization_id uuid, day date, snapshot pg_snapshot, out sha256 text, out checksum bit, out entries bigint
)
-- The settings are those of read_page.
language plpgsql stable set search_path = pg_catalog, pg_temp
  set plan_cache_mode = 'force_generic_plan' set jit = off as $$
declare
  range_end constant timestamptz := (day + 1)::timestamp at time zone 'UTC';
  place audit_log_private.place := audit_log_private.place_before(day::timestamp at time zone 'UTC');
  block record;
  list text := '';
begin
  entries := 0;
  checksum := 0::bit(256);
  loop
    select
      count(*) as entries,
      string_agg(e.line, E'\n' order by e.created_at, e.id) as lines,
      bit_xor(audit_log_private.entry_checksum(e.line)) as checksum,
      (array_agg((e.created_at, e.id)::audit_log_private.place order by e.created_at desc, e.id desc))[1] as last
    into strict block
    from (
      select e.created_at, e.id, audit_log_private.entry_line(e) as line from audit_log.audit_entries e
      where e.organization_id = hash_day.organization_id
        and (e.created_at, e.id) > (place.created_at, place.id) and e.created_at < range_end
        and pg_visible_in_snapshot(e.transaction_id, snapshot)
      order by e.created_at, e.id limit 1000
    ) as e;
    exit when block.entries = 0;
    entries := entries + block.entries;
    checksum := checksum # block.checksum;
    list := list || encode(sha256(convert_to(block.lines || E'\n', 'UTF8')), 'hex') || E'\n';
    exit when block.entries < 1000;
    place := block.last;
  end loop;
  sha256 := encode(sha256(convert_to(list, 'UTF8')), 'hex');
end $$;
comment on function audit_log_private.hash_day is 'The hash of a day''s entries that a snapshot sees, 1000 at a time.';

create function audit_log_private.chain_end(organization_id uuid) returns audit_log_private.seals
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return (
    select s from audit_log_private.seals s where s.organization_id = chain_end.organization_id
    order by s.sequence desc limit 1
  );
end $$;
comment on function audit_log_private.chain_end is 'An organization''s last seal; null if there is none.';

create function audit_log_private.read_seals(organization_id uuid, query audit_log.page_query)
returns audit_log_private.reading
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  first_day constant date := query.since at time zone 'UTC';
  last_day constant date := (query.until - interval '1 microsecond') at time zone 'UTC';
  read audit_log_private.reading;
begin
  read.decision := 'accepted';
  read.total := (
    select count(*) from audit_log_private.seals s
    where s.organization_id = read_seals.organization_id and s.day between first_day and last_day
  );
  read.items := '[' || (
    select coalesce(
      string_agg(audit_log_private.seal_json(s::audit_log_private.seals)::text, E',\n' order by s.sequence), ''
    )
    from (
      select s.* from audit_log_private.seals s
      where s.organization_id = read_seals.organization_id and s.day between first_day and last_day
      order by s.sequence limit query.page_limit offset query.page_offset
    ) as s
  ) || ']';
  read.entries := 0;
  read.altered := (
    select coalesce(json_agg(d.day order by d.day), '[]') from audit_log_private.sealed_days d
    where d.organization_id = read_seals.organization_id
      and d.day between first_day and last_day and d.altered_at is not null
  );
  return read;
end $$;
comment on function audit_log_private.read_seals is 'A page of the seals of a query''s days, and which are altered.';

create function audit_log_private.seal_json(seal audit_log_private.seals) returns json
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return json_build_object(
    'format', 1, 'sequence', seal.sequence, 'day', seal.day, 'entries', seal.entries, 'added', seal.added,
    'removed', seal.removed, 'sha256', seal.sha256, 'sealed_at', audit_log_private.api_time(seal.sealed_at),
    'previous', seal.previous, 'seal', seal.seal
  );
end $$;
comment on function audit_log_private.seal_json is 'A seal as answers show it.';
