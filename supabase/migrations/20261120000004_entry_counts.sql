-- Counts of entries, kept while entries are written (docs/design.md says why). These are partial counts: one row for
-- each organization, UTC day, action and writing backend. A backend updates only its own rows, so writers never wait for
-- each other and cannot deadlock. Entries and counts change in one transaction, so every snapshot sees both or neither.
-- No index contains a count. Otherwise updates could not stay within their page (HOT).
--
-- A transaction cannot prune the row versions that its own updates leave, and each update walks past all of them.
-- So after 64 updates it goes on in another row, the next part.

create table audit_log_private.entry_counts (
  -- Not on delete cascade: the entries have no foreign key, and an organization with entries has counts.
  organization_id uuid not null references audit_log.organizations,
  day date not null,
  action text collate "C" not null,
  writer_pid integer not null,
  part integer not null default 0,
  entries integer not null,
  hours integer[] not null,
  removed integer not null default 0,
  updates integer not null default 0,
  updated_by xid8 not null default '0',
  required_path jsonpath,
  primary key (organization_id, day, action, writer_pid, part)
) with (fillfactor = 50);
comment on table audit_log_private.entry_counts is 'Partial counts of audit_entries. The count of a day is the sum of its parts; one part may be negative.';
comment on column audit_log_private.entry_counts.writer_pid is 'Process id of the backend that counted, or 0 when compacted.';
comment on column audit_log_private.entry_counts.part is '0; a long transaction goes on in part 1 after 64 updates, then in 2, and so on.';
comment on column audit_log_private.entry_counts.hours is 'The same count by the hour of the day: 24 numbers that add up to entries.';
comment on column audit_log_private.entry_counts.removed is 'How many entries were deleted so far.';
comment on column audit_log_private.entry_counts.updates is 'How many updates it has had since the transaction updated_by began with it: at most 64.';
comment on column audit_log_private.entry_counts.required_path is 'A copy of the action''s required_path, so that writers need not look it up. Null: they must.';

-- For compact_entry_counts, and for readers, who add what is not compacted yet to the sums of months.
create index entry_counts_partial_idx on audit_log_private.entry_counts (organization_id, day) where writer_pid <> 0;

-- The counts of a day are compacted in the night after it, side by side for all organizations. So the days of
-- one organization are spread over many pages, and a range of years would read thousands of them.
create table audit_log_private.monthly_entry_counts (
  organization_id uuid not null references audit_log.organizations on delete cascade,
  month date not null check (extract(day from month) = 1),
  action text collate "C" not null,
  entries bigint not null,
  primary key (organization_id, month, action)
) with (fillfactor = 50);
comment on table audit_log_private.monthly_entry_counts is 'Sums by month of the compacted counts in entry_counts. Only the upkeep changes them.';

create function audit_log_private.check_and_count_entries() returns trigger
-- enable_seqscan: plans are made while tables are small, and kept.
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
  entry audit_log.audit_entries;
  counted record;
  leaving_at timestamptz;
  hour_of_day integer;
  codes text[];
  required_paths jsonpath[];
  this_transaction constant xid8 := pg_current_xact_id();
  -- The part that this transaction counts in. Anybody can change this setting; that only makes another part.
  current_part integer := coalesce(substring(current_setting('audit_log_private.part', true) from '^[0-9]{1,9}$')::integer, 0);
begin
  if tg_op = 'INSERT' then
    -- Nearly always one entry, of a day and an action that this backend has counted before.
    begin
      select c.* into strict entry from changed c;
    exception when no_data_found or too_many_rows then null;
    end;
    update audit_log_private.entry_counts c
    set entries = c.entries + 1,
      hours[date_part('hour', entry.created_at at time zone interval '0')::integer + 1] =
        c.hours[date_part('hour', entry.created_at at time zone interval '0')::integer + 1] + 1,
      updates = case when c.updates < 64 then c.updates + 1 else 1 end,
      updated_by = case when c.updates < 64 then c.updated_by else this_transaction end
    where c.organization_id = entry.organization_id and c.day = (entry.created_at at time zone interval '0')::date
      and c.action = entry.action and c.writer_pid = pg_backend_pid() and c.part = current_part
      and (c.updates < 64 or c.updated_by <> this_transaction)
      and audit_log_private.broken_rule(
        entry.created_at, entry.user_email, entry.agent_name, entry.data, c.required_path
      ) is null;
    if found then
      return null;
    end if;
  end if;
  -- The catalogue is small, and needed twice: to check the entries and for new rows of counts.
  select array_agg(a.code), array_agg(a.required_path) into codes, required_paths from audit_log.actions a;
  for counted in
    select
      e.organization_id,
      e.action,
      date_trunc('hour', e.created_at at time zone interval '0') as hour,
      count(*)::integer as entries,
      min(case when tg_op = 'INSERT' then
        audit_log_private.broken_rule(e.created_at, e.user_email, e.agent_name, e.data, a.required_path)
      end) as broken_rule
    from changed e left join unnest(codes, required_paths) as a (code, required_path) on a.code = e.action
    group by 1, 2, 3
  loop
    if tg_op = 'DELETE' then
      counted.entries := -counted.entries;
    elsif counted.broken_rule = 'action_is_in_catalogue' then
      raise exception 'an entry has the action "%", which is not in the table audit_log.actions', counted.action using
        errcode = 'foreign_key_violation', constraint = counted.broken_rule, schema = tg_table_schema, table = tg_table_name;
    elsif counted.broken_rule is not null then
      raise exception 'an entry breaks the rule %', concat(counted.broken_rule, (
        select ': ' || array_to_string(a.required, ', ') from audit_log.actions a
        where a.code = counted.action and counted.broken_rule = 'data_has_required'
      )) using
        errcode = 'check_violation', constraint = counted.broken_rule, schema = tg_table_schema, table = tg_table_name;
    end if;
    select o.leaving_at into leaving_at from audit_log.organizations o where o.id = counted.organization_id;
    if tg_op = 'INSERT' and (not found or leaving_at is not null) then
      raise exception 'an entry has the organization %, which is %', counted.organization_id,
        case when leaving_at is null then 'not in the table audit_log.organizations' else 'being deleted (delete_organization)' end
        using errcode = 'foreign_key_violation', schema = tg_table_schema, table = tg_table_name;
    end if;
    if tg_op = 'INSERT' and current_setting('transaction_isolation') <> 'read committed' then
      -- Its snapshot may be older than a change of the action. Then this raises a serialization failure.
      perform from audit_log.actions a where a.code = counted.action for share;
    end if;
    hour_of_day := extract(hour from counted.hour) + 1;
    loop
      -- No other backend counts in rows with this process id. "on conflict" always finds them by key.
      insert into audit_log_private.entry_counts as c (
        organization_id, day, action, writer_pid, part, entries, hours, removed, updates, updated_by, required_path
      )
      values (
        counted.organization_id, counted.hour, counted.action, pg_backend_pid(), current_part, counted.entries,
        array_fill(0, array[hour_of_day - 1]) || counted.entries || array_fill(0, array[24 - hour_of_day]),
        greatest(0, -counted.entries), 1, this_transaction,
        case when tg_op = 'INSERT' then required_paths[array_position(codes, counted.action)] end
      )
      on conflict on constraint entry_counts_pkey do update
      set entries = c.entries + excluded.entries,
        hours[hour_of_day] = c.hours[hour_of_day] + counted.entries,
        removed = c.removed + excluded.removed,
        updates = case when c.updates < 64 then c.updates + 1 else 1 end,
        updated_by = case when c.updates < 64 then c.updated_by else excluded.updated_by end,
        required_path = excluded.required_path
      where c.updates < 64 or c.updated_by <> excluded.updated_by;
      exit when found;
      current_part := current_part + 1;
      perform set_config('audit_log_private.part', current_part::text, true);
    end loop;
  end loop;
  return null;
end $$;
comment on function audit_log_private.check_and_count_entries is 'Refuses entries that break a rule, and counts those that a statement wrote or deleted.';

create trigger check_and_count_inserted
  after insert on audit_log.audit_entries referencing new table as changed
  for each statement execute function audit_log_private.check_and_count_entries();
create trigger count_deleted
  after delete on audit_log.audit_entries referencing old table as changed
  for each statement execute function audit_log_private.check_and_count_entries();

create function audit_log_private.compact_entry_counts(organization_id uuid) returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  compacted bigint;
begin
  perform from audit_log_private.days_to_seal d where d.organization_id = compact_entry_counts.organization_id;
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
    where c.organization_id = compact_entry_counts.organization_id and c.writer_pid <> 0
      and exists (
        select from audit_log_private.days_to_seal d where d.organization_id = c.organization_id and d.day = c.day
      )
    order by c.day, c.action
    -- A constant, not a parameter: a generic plan might read and sort the whole backlog.
    limit 1000
    for update skip locked
  ),
  keys as (
    select day, action, writer_pid, part from partial
    union
    -- The row compacted earlier. It is only touched under the advisory lock.
    select day, action, 0, 0 from partial
  ),
  moved as (
    -- By key, not by ctid: the row may have a newer version than this statement's snapshot.
    delete from audit_log_private.entry_counts c using keys k
    where c.organization_id = compact_entry_counts.organization_id
      and c.day = k.day and c.action = k.action and c.writer_pid = k.writer_pid and c.part = k.part
    returning c.*
  ),
  inserted as (
    insert into audit_log_private.entry_counts (organization_id, day, action, writer_pid, entries, hours, removed)
    select h.organization_id, h.day, h.action, 0, sum(h.entries)::integer, array_agg(h.entries order by h.hour), max(h.removed)
    from (
      select m.organization_id, m.day, m.action, h.hour, sum(h.entries)::integer as entries, sum(m.removed)::integer as removed
      from moved m cross join unnest(m.hours) with ordinality as h (entries, hour)
      group by m.organization_id, m.day, m.action, h.hour
    ) as h
    group by h.organization_id, h.day, h.action having bool_or(h.entries <> 0 or h.removed <> 0)
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
comment on function audit_log_private.compact_entry_counts is 'Adds up the partial counts of an organization''s finished days into one row for each day and action, at most 1000 partial counts at once. Only of days that are in days_to_seal already: queue_days_to_seal finds days by their partial counts. Safe beside writers. Returns how many. Readers then have fewer rows to add up.';

create function audit_log_private.entry_count_mismatches(organization_id uuid)
returns table (day date, action text, hour integer, difference bigint)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return query select d.day, d.action, d.hour::integer, sum(d.entries)::bigint
  from (
    select
      (e.created_at at time zone 'UTC')::date as day,
      e.action,
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
comment on function audit_log_private.entry_count_mismatches is 'Compares an organization''s counts with its entries, in one snapshot, beside writers. Finds nothing unless somebody changed counts by hand or wrote past the triggers. hour: 0 to 23; null for the whole day; -1 for the sum of the month that begins on that day. difference: how many entries the counts lack.';

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
  insert into audit_log_private.entry_counts as c (organization_id, day, action, writer_pid, entries, hours)
  select
    repair_entry_counts.organization_id,
    e.day,
    e.action,
    0,
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
    hours = array(select a + b from unnest(c.hours, excluded.hours) with ordinality as s (a, b, h) order by h);
  get diagnostics repaired = row_count;
  delete from audit_log_private.monthly_entry_counts s where s.organization_id = repair_entry_counts.organization_id;
  insert into audit_log_private.monthly_entry_counts (organization_id, month, action, entries)
  select c.organization_id, date_trunc('month', c.day::timestamp), c.action, sum(c.entries)
  from audit_log_private.entry_counts c
  where c.organization_id = repair_entry_counts.organization_id and c.writer_pid = 0
  group by 1, 2, 3;
  return repaired;
end $$;
comment on function audit_log_private.repair_entry_counts is 'Corrects an organization''s counts by what entry_count_mismatches finds, beside writers. Also corrects the sums of months. Returns how many counts of a day and action were wrong.';
