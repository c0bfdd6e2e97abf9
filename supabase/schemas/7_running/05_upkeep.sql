-- Upkeep: regular work in bounded pieces, so that no piece holds locks for long, however much there is to do. A
-- function with a search_path cannot commit, so its caller commits after each piece (docs/operating.md).

create table audit_log_private.upkeep_state (
  is_only boolean primary key default true check (is_only),
  -- Before the first run, when the service was installed.
  last_run_at timestamptz not null default clock_timestamp(),
  -- When the run in progress began.
  started_at timestamptz,
  -- A run passes over the organizations twice: it deletes and compacts, then it seals and compares.
  is_first_pass boolean not null default true,
  -- The last organization that this pass is done with.
  done_until uuid
);
comment on table audit_log_private.upkeep_state is 'One row: the last upkeep, and how far the present one is.';

insert into audit_log_private.upkeep_state default values;

create function audit_log_private.run_upkeep() returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  clock constant timestamptz := clock_timestamp();
  state record;
  -- Counts to compact, or entries to seal, in one piece.
  piece integer;
  next record;
  work bigint;
  done bigint := 0;
  organizations integer := 0;
begin
  -- Not in a restored database before it is adopted: its snapshots may not see entries of another cluster.
  perform audit_log_private.cursor_key('');
  -- Several runs at once take turns, piece by piece.
  perform pg_advisory_xact_lock('audit_log_private.entry_counts'::regclass::oid::bigint);
  insert into audit_log_private.upkeep_state default values on conflict do nothing;
  select u.* into strict state from audit_log_private.upkeep_state u;
  -- A run that was interrupted starts from the first organization after half a day. It finds the finished work done.
  if (state.started_at > clock - interval '12 hours') is not true then
    select clock, true, null::uuid into state.started_at, state.is_first_pass, state.done_until;
  end if;
  piece := case when state.is_first_pass then 1000 else 20000 end;
  for next in
    select o.id from audit_log.organizations o
    where state.done_until is null or o.id > state.done_until
    order by o.id limit 1000
  loop
    organizations := organizations + 1;
    -- Two passes, because writers of late entries wait for what compacts their counts, and a long day is sealed slowly.
    if state.is_first_pass then
      -- Deletions come first: then the same run compacts their counts, and declares them with new seals.
      work := case when audit_log_private.delete_expired(next.id) then 1000
        else audit_log_private.compact_entry_counts(next.id) end;
    else
      work := audit_log_private.seal_and_compare(next.id);
    end if;
    done := done + work;
    -- It may have more to do, and is the first of the next piece.
    exit when work >= piece;
    state.done_until := next.id;
    exit when done >= piece;
  end loop;
  if done < piece and organizations < 1000 then
    if not state.is_first_pass then
      perform audit_log_private.follow_renames();
      perform audit_log_private.follow_deleted_accounts();
      update audit_log_private.upkeep_state
      set last_run_at = clock_timestamp(), started_at = null, is_first_pass = true, done_until = null
      where is_only;
      return false;
    end if;
    state.is_first_pass := false;
    state.done_until := null;
  end if;
  update audit_log_private.upkeep_state
  set started_at = state.started_at, is_first_pass = state.is_first_pass, done_until = state.done_until
  where is_only;
  return true;
end $$;
comment on function audit_log_private.run_upkeep is 'Does a piece of all upkeep. Returns whether there may be more.';

create function audit_log_private.seal_and_compare(organization_id uuid) returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  clock constant timestamptz := clock_timestamp();
  next record;
  work bigint := 0;
begin
  -- No day waits longer. What seems to was compared while the clock was ahead.
  update audit_log_private.sealed_days d set check_at = clock
  where d.organization_id = seal_and_compare.organization_id and d.check_at > clock + interval '31 days';
  -- One query a piece: each passes the rows that earlier ones deleted. An almost empty day costs like 100 entries.
  for next in
    (
      select d.day from audit_log_private.days_to_seal d
      where d.organization_id = seal_and_compare.organization_id order by d.day limit 200
    )
    union all
    (
      -- Sealed days are compared with their seals.
      select d.day from audit_log_private.sealed_days d
      where d.organization_id = seal_and_compare.organization_id and d.check_at <= clock
        and d.day <> all (
          select s.day from audit_log_private.days_to_seal s
          where s.organization_id = seal_and_compare.organization_id
        )
      order by d.check_at limit 200
    )
  loop
    work := work + 100 + audit_log_private.seal_day(organization_id, next.day);
    delete from audit_log_private.days_to_seal d
    where d.organization_id = seal_and_compare.organization_id and d.day = next.day;
    exit when work >= 20000;
  end loop;
  if work < 20000 and audit_log_private.queue_missed_days(organization_id) then
    return 20000;
  end if;
  return work;
end $$;
comment on function audit_log_private.seal_and_compare is 'A piece of the second pass; from 20,000, there may be more.';

create function audit_log_private.compact_entry_counts(organization_id uuid) returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  today constant date := clock_timestamp() at time zone 'UTC';
  compacted bigint;
begin
  -- Most have none, and then nothing is locked.
  perform from audit_log_private.entry_counts c
  where c.organization_id = compact_entry_counts.organization_id and c.writer_pid <> 0 and c.day < today limit 1;
  if not found then
    return 0;
  end if;
  perform pg_advisory_xact_lock('audit_log_private.entry_counts'::regclass::oid::bigint);
  perform from audit_log.organizations o where o.id = compact_entry_counts.organization_id for key share skip locked;
  if not found then
    return 0;
  end if;
  with partial as materialized (
    -- Waits for no writer and no deletion, so it cannot be part of a deadlock.
    select c.day, c.action, c.writer_pid, c.part from audit_log_private.entry_counts c
    where c.organization_id = compact_entry_counts.organization_id and c.writer_pid <> 0 and c.day < today
    order by c.day, c.action
    -- A constant, not a parameter: a generic plan might read and sort the whole backlog.
    limit 1000
    for update skip locked
  ),
  queued as (
    insert into audit_log_private.days_to_seal (organization_id, day)
    select distinct compact_entry_counts.organization_id, p.day from partial p
    on conflict do nothing
  ),
  counts as (
    select day, action, writer_pid, part from partial
    union
    -- The row compacted earlier. It is only touched under the advisory lock.
    select day, action, 0, 0 from partial
  ),
  moved as (
    -- Not by ctid: the row may have a newer version than this statement's snapshot.
    delete from audit_log_private.entry_counts c using counts t
    where c.organization_id = compact_entry_counts.organization_id
      and c.day = t.day and c.action = t.action and c.writer_pid = t.writer_pid and c.part = t.part
    returning c.*
  ),
  inserted as (
    insert into audit_log_private.entry_counts (organization_id, day, action, writer_pid, entries, hours)
    select
      h.organization_id, h.day, h.action, 0, sum(h.entries)::integer, array_agg(h.entries order by h.hour)
    from (
      select m.organization_id, m.day, m.action, h.hour, sum(h.entries)::integer as entries
      from moved m cross join unnest(m.hours) with ordinality as h (entries, hour)
      group by m.organization_id, m.day, m.action, h.hour
    ) as h
    group by h.organization_id, h.day, h.action
  ),
  summed as (
    insert into audit_log_private.monthly_entry_counts as s (organization_id, month, action, entries)
    select m.organization_id, date_trunc('month', m.day::timestamp), m.action, sum(m.entries) from moved m
    -- Compacted counts are in the sums already.
    where m.writer_pid <> 0
    group by 1, 2, 3
    on conflict on constraint monthly_entry_counts_pkey do update set entries = s.entries + excluded.entries
  )
  -- Rows that writers hold are left for the next run.
  select count(*) into compacted from partial;
  return compacted;
end $$;
comment on function audit_log_private.compact_entry_counts is
  'Adds up partial counts of finished days, which it queues for their seals. Returns how many.';

create function audit_log_private.entry_count_mismatches(organization_id uuid)
returns table (day date, action text, hour integer, difference bigint)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return query select d.day, d.action, d.hour::integer, sum(d.entries)::bigint
  from (
    select
      (e.created_at at time zone 'UTC')::date as day, e.action,
      extract(hour from e.created_at at time zone 'UTC')::integer as hour,
      count(*) as entries
    from audit_log.audit_entries e
    where e.organization_id = entry_count_mismatches.organization_id
    group by grouping sets ((1, 2, 3), (1, 2))
    union all
    select c.day, c.action, null, -c.entries from audit_log_private.entry_counts c
    where c.organization_id = entry_count_mismatches.organization_id
    union all
    select c.day, c.action, h.hour - 1, -h.entries
    from audit_log_private.entry_counts c cross join unnest(c.hours) with ordinality as h (entries, hour)
    where c.organization_id = entry_count_mismatches.organization_id
    union all
    select date_trunc('month', c.day::timestamp)::date, c.action, -1, c.entries from audit_log_private.entry_counts c
    where c.organization_id = entry_count_mismatches.organization_id and c.writer_pid = 0
    union all
    select s.month, s.action, -1, -s.entries from audit_log_private.monthly_entry_counts s
    where s.organization_id = entry_count_mismatches.organization_id
  ) as d
  group by d.day, d.action, d.hour having sum(d.entries) <> 0;
end $$;
comment on function audit_log_private.entry_count_mismatches is
  'Where an organization''s counts differ from its entries, in one snapshot. hour: 0 to 23; null for the whole day; '
  '-1 for the month that begins on that day. difference: how many entries the counts lack.';

create function audit_log_private.repair_entry_counts(organization_id uuid) returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  repaired bigint;
begin
  -- Two repairs at once would both add the difference, so they take turns, and each must read after the
  -- lock. Writers need not wait: they change entries and counts alike, which leaves the difference as it is.
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'repair_entry_counts needs read committed' using errcode = 'invalid_transaction_state';
  end if;
  perform pg_advisory_xact_lock('audit_log_private.entry_counts'::regclass::oid::bigint);
  perform from audit_log.organizations o where o.id = repair_entry_counts.organization_id for key share;
  with repaired_counts as (
    insert into audit_log_private.entry_counts as c (organization_id, day, action, writer_pid, entries, hours)
    select
      repair_entry_counts.organization_id, e.day, e.action, 0,
      coalesce(sum(e.difference) filter (where e.hour is null), 0),
      array(
        select coalesce(sum(d.difference) filter (where d.hour = h), 0)
        from generate_series(0, 23) as h, unnest(array_agg(e.hour), array_agg(e.difference)) as d (hour, difference)
        group by h order by h
      )
    from audit_log_private.entry_count_mismatches(repair_entry_counts.organization_id) e
    where e.hour is distinct from -1
    group by e.day, e.action
    on conflict on constraint entry_counts_pkey do update
    set entries = c.entries + excluded.entries,
      hours = array(select a + b from unnest(c.hours, excluded.hours) with ordinality as s (a, b, h) order by h)
    returning c.day
  ),
  queued as (
    insert into audit_log_private.days_to_seal (organization_id, day)
    select distinct repair_entry_counts.organization_id, r.day from repaired_counts r
    -- An entry that came past the triggers can have any time. The API has these days.
    where r.day >= '0001-01-01' and r.day < (clock_timestamp() at time zone 'UTC')::date
    on conflict do nothing
  )
  select count(*) into strict repaired from repaired_counts;
  delete from audit_log_private.monthly_entry_counts s where s.organization_id = repair_entry_counts.organization_id;
  insert into audit_log_private.monthly_entry_counts (organization_id, month, action, entries)
  select c.organization_id, date_trunc('month', c.day::timestamp), c.action, sum(c.entries)
  from audit_log_private.entry_counts c
  where c.organization_id = repair_entry_counts.organization_id and c.writer_pid = 0
  group by 1, 2, 3;
  return repaired;
end $$;
comment on function audit_log_private.repair_entry_counts is
  'Corrects an organization''s counts, beside writers. Returns how many were wrong.';
