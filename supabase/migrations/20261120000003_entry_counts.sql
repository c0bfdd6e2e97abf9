-- How many entries there are, kept as they are written, so that a total is a sum of a few rows and
-- an offset leads straight to its hour: neither costs a scan of the log, however long it is.
--
-- Partial counts: one row for each organization, UTC day, action, and writing backend. A backend
-- updates rows of its own only, so no writer ever waits for another and none can deadlock; readers
-- add the parts up. Entries and counts change in one transaction, so every snapshot sees both or
-- neither: the sum is exact under concurrency, rollback, late entries and retention.
-- No index has a count in it, or no update would stay within its page (HOT).

create table private.entry_counts (
  organization_id uuid not null references public.organizations on delete cascade,
  day date not null,
  action public.audit_action not null,
  writer_pid integer not null,
  entries integer not null,
  hours integer[] not null,
  removed integer not null default 0,
  primary key (organization_id, day, action, writer_pid)
) with (fillfactor = 50);
comment on table private.entry_counts is 'Partial counts of audit_entries. The count of a day is the sum of its parts; one part may be negative.';
comment on column private.entry_counts.writer_pid is 'Process id of the backend that counted, or 0 when compacted.';
comment on column private.entry_counts.hours is 'The same count by the hour of the day: 24 numbers that add up to entries.';
comment on column private.entry_counts.removed is 'How many entries were ever deleted.';

-- For compact_entry_counts, which would otherwise read all counts to find the few that are left to do.
create index entry_counts_uncompacted_idx on private.entry_counts (day, organization_id, action) where writer_pid <> 0;
-- For readers, who take whole months from monthly_entry_counts and add what is not compacted yet.
create index entry_counts_partial_idx on private.entry_counts (organization_id, day) where writer_pid <> 0;

alter table private.entry_counts enable row level security;
revoke all on private.entry_counts from public, anon, authenticated, service_role;

-- A day's counts are written in the night after it, those of all organizations side by side. So the days of
-- one organization lie on as many pages, and a range of years would read thousands of them.
create table private.monthly_entry_counts (
  organization_id uuid not null references public.organizations on delete cascade,
  month date not null check (extract(day from month) = 1),
  action public.audit_action not null,
  entries bigint not null,
  primary key (organization_id, month, action)
) with (fillfactor = 50);
comment on table private.monthly_entry_counts is 'Sums of the compacted counts in entry_counts, by month. Only the upkeep changes either.';
alter table private.monthly_entry_counts enable row level security;
revoke all on private.monthly_entry_counts from public, anon, authenticated, service_role;

create function private.count_entries() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  counted record;
begin
  for counted in
    select
      e.organization_id,
      (e.created_at at time zone 'UTC')::date as day,
      e.action,
      extract(hour from e.created_at at time zone 'UTC')::integer + 1 as hour,
      count(*)::integer * case tg_op when 'DELETE' then -1 else 1 end as entries
    from changed e
    group by 1, 2, 3, 4
  loop
    -- Nobody else writes rows of this backend's. Not an update by key, then an insert if there was none:
    -- its plan is kept, and one made while the table was one page read all of it for each row of a load.
    -- A conflict is always looked up in its index.
    insert into private.entry_counts as c (organization_id, day, action, writer_pid, entries, hours, removed)
    values (
      counted.organization_id, counted.day, counted.action, pg_backend_pid(), counted.entries,
      array_fill(0, array[counted.hour - 1]) || counted.entries || array_fill(0, array[24 - counted.hour]),
      greatest(0, -counted.entries)
    )
    on conflict on constraint entry_counts_pkey do update
    set entries = c.entries + excluded.entries,
      hours[counted.hour] = c.hours[counted.hour] + counted.entries,
      removed = c.removed + excluded.removed;
  end loop;
  return null;
end
$$;
comment on function private.count_entries is 'Counts the entries that a statement wrote or deleted.';
revoke execute on function private.count_entries from public, anon, authenticated, service_role;

create trigger count_inserted
  after insert on public.audit_entries referencing new table as changed
  for each statement execute function private.count_entries();
create trigger count_deleted
  after delete on public.audit_entries referencing old table as changed
  for each statement execute function private.count_entries();

create function private.compact_entry_counts() returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
  today constant date := clock_timestamp() at time zone 'UTC';
  found_more boolean;
begin
  perform pg_advisory_xact_lock('private.entry_counts'::regclass::oid::bigint);
  with partial as materialized (
    -- Never waits for a writer or a deletion, so that none can wait for it in a circle.
    select c.organization_id, c.day, c.action, c.writer_pid
    from private.entry_counts c
    join public.organizations o on o.id = c.organization_id
    where c.writer_pid <> 0 and c.day < today
    order by c.day, c.organization_id, c.action
    -- Not a parameter: a kept plan knows no sizes, and might read and sort the whole backlog.
    limit 1000
    for update of c skip locked
    for key share of o skip locked
  ),
  keys as (
    select organization_id, day, action, writer_pid from partial
    union
    -- What has been compacted before. Nobody else touches these rows without the advisory lock.
    select organization_id, day, action, 0 from partial
  ),
  moved as (
    -- By key, not by ctid: a row may have got a new version since this statement's snapshot.
    delete from private.entry_counts c using keys k
    where c.organization_id = k.organization_id and c.day = k.day and c.action = k.action and c.writer_pid = k.writer_pid
    returning c.*
  ),
  inserted as (
    insert into private.entry_counts (organization_id, day, action, writer_pid, entries, hours, removed)
    select h.organization_id, h.day, h.action, 0, sum(h.entries)::integer, array_agg(h.entries order by h.hour), max(h.removed)
    from (
      select m.organization_id, m.day, m.action, h.hour, sum(h.entries)::integer as entries, sum(m.removed)::integer as removed
      from moved m cross join unnest(m.hours) with ordinality as h (entries, hour)
      group by m.organization_id, m.day, m.action, h.hour
    ) as h
    group by h.organization_id, h.day, h.action
    having bool_or(h.entries <> 0 or h.removed <> 0)
  ),
  summed as (
    insert into private.monthly_entry_counts as s (organization_id, month, action, entries)
    select m.organization_id, date_trunc('month', m.day::timestamp), m.action, sum(m.entries)
    from moved m
    -- The others are in the sums already.
    where m.writer_pid <> 0
    group by 1, 2, 3
    on conflict on constraint monthly_entry_counts_pkey do update set entries = s.entries + excluded.entries
  ),
  written as (
    insert into private.days_to_seal (organization_id, day)
    select distinct m.organization_id, m.day from moved m
    on conflict do nothing
  )
  -- Those that writers hold are left for the next run, and not waited for.
  select count(*) = 1000 into found_more from partial;
  return found_more;
end
$$;
comment on function private.compact_entry_counts is 'Adds the partial counts of past days up into one row for each day and action, beside writers, at most 1000 partial counts at once; whether there may be more. Readers then have fewer rows to add.';
revoke execute on function private.compact_entry_counts from public, anon, authenticated, service_role;

create function private.entry_count_mismatches(organization_id uuid)
returns table (day date, action public.audit_action, hour integer, difference bigint)
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
begin
  return query select d.day, d.action, d.hour::integer, sum(d.entries)::bigint
  from (
    select
      (e.created_at at time zone 'UTC')::date as day,
      e.action,
      extract(hour from e.created_at at time zone 'UTC')::integer + 1 as hour,
      count(*) as entries
    from public.audit_entries e
    where e.organization_id = entry_count_mismatches.organization_id
    group by grouping sets ((1, 2, 3), (1, 2))
    union all
    select c.day, c.action, null, -c.entries
    from private.entry_counts c
    where c.organization_id = entry_count_mismatches.organization_id
    union all
    select c.day, c.action, h.hour, -h.entries
    from private.entry_counts c cross join unnest(c.hours) with ordinality as h (entries, hour)
    where c.organization_id = entry_count_mismatches.organization_id
    union all
    select date_trunc('month', c.day::timestamp)::date, c.action, 0, c.entries
    from private.entry_counts c
    where c.organization_id = entry_count_mismatches.organization_id and c.writer_pid = 0
    union all
    select s.month, s.action, 0, -s.entries
    from private.monthly_entry_counts s
    where s.organization_id = entry_count_mismatches.organization_id
  ) as d
  group by d.day, d.action, d.hour
  having sum(d.entries) <> 0;
end
$$;
comment on function private.entry_count_mismatches is 'Compares an organization''s counts with its entries, at one moment, beside writers. Nothing, unless somebody has changed the counts by hand or written past the triggers. hour: 1 to 24, or null for the whole day, or 0 for the sum of the month that begins on the day. difference: entries that the counts lack.';
revoke execute on function private.entry_count_mismatches from public, anon, authenticated, service_role;

create function private.repair_entry_counts(organization_id uuid) returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
  repaired bigint;
begin
  -- Two repairs at once would each add the difference. Writers need not wait: they change entries and
  -- counts alike, so the difference is the same at every moment; but it must be seen after the lock.
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'repair_entry_counts needs read committed' using errcode = 'invalid_transaction_state';
  end if;
  perform pg_advisory_xact_lock('private.entry_counts'::regclass::oid::bigint);
  perform from public.organizations o where o.id = repair_entry_counts.organization_id for key share;
  insert into private.entry_counts as c (organization_id, day, action, writer_pid, entries, hours)
  select
    repair_entry_counts.organization_id,
    e.day,
    e.action,
    0,
    coalesce(sum(e.difference) filter (where e.hour is null), 0),
    array(
      select coalesce(sum(d.difference) filter (where d.hour = h), 0)
      from generate_series(1, 24) as h, unnest(array_agg(e.hour), array_agg(e.difference)) as d (hour, difference)
      group by h
      order by h
    )
  from private.entry_count_mismatches(repair_entry_counts.organization_id) e
  where e.hour is distinct from 0
  group by e.day, e.action
  on conflict on constraint entry_counts_pkey do update
  set entries = c.entries + excluded.entries,
    hours = array(select a + b from unnest(c.hours, excluded.hours) with ordinality as s (a, b, h) order by h);
  get diagnostics repaired = row_count;
  delete from private.monthly_entry_counts s where s.organization_id = repair_entry_counts.organization_id;
  insert into private.monthly_entry_counts (organization_id, month, action, entries)
  select c.organization_id, date_trunc('month', c.day::timestamp), c.action, sum(c.entries)
  from private.entry_counts c
  where c.organization_id = repair_entry_counts.organization_id and c.writer_pid = 0
  group by 1, 2, 3;
  return repaired;
end
$$;
comment on function private.repair_entry_counts is 'Corrects an organization''s counts by what entry_count_mismatches finds, beside writers; how many counts of a day and action were wrong. Sums of months are corrected, too.';
revoke execute on function private.repair_entry_counts from public, anon, authenticated, service_role;
