-- How many entries there are, by the counts that the table entry_counts keeps; and whether these are right.

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
comment on function audit_log_private.entry_count_mismatches is
  'Compares an organization''s counts with its entries, in one snapshot, beside writers. Finds nothing unless '
  'somebody changed counts by hand or wrote past the triggers. hour: 0 to 23; null for the whole day; -1 for the '
  'sum of the month that begins on that day. difference: how many entries the counts lack.';

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
comment on function audit_log_private.repair_entry_counts is
  'Corrects an organization''s counts by what entry_count_mismatches finds, beside writers. Also corrects the '
  'sums of months. Returns how many counts of a day and action were wrong.';

create function audit_log_private.count_matching(organization_id uuid, query audit_log.page_query)
returns audit_log_private.reading
-- The settings are those of read_page.
language plpgsql stable set search_path = pg_catalog, pg_temp set plan_cache_mode = 'force_generic_plan' set jit = off as $$
declare
  wanted_actions constant text[] := query.actions;
  wanted_email constant text := query.user_email;
  -- As in read_page.
  least_id constant uuid := uuid '00000000-0000-0000-0000-000000000000';
  first_day constant date := query.since at time zone 'UTC';
  end_day constant date := query.until at time zone 'UTC';
  whole record;
  counted record;
  before_until record;
  read audit_log_private.reading;
begin
  if wanted_actions is not null then
    perform from audit_log.actions a where a.code = any (wanted_actions) having count(*) = cardinality(wanted_actions);
    -- wanted_actions[1] is null for an array of arrays.
    if not found or wanted_actions[1] is null or cardinality(wanted_actions) > 20 then
      read.decision := 'invalid_query';
      return read;
    end if;
  end if;
  read.decision := 'accepted';
  read.items := '[]';
  read.entries := 0;
  -- Nothing counts persons while entries are written, which would cost writers too much. They are counted in their
  -- index, up to a million.
  if wanted_email is not null then
    select count(*) filter (where wanted_actions is null or e.action = any (wanted_actions)) as matching, count(*) as examined
    into strict counted
    from (
      select e.action from audit_log.audit_entries e
      where e.organization_id = count_matching.organization_id and lower(e.user_email) = wanted_email
        and (e.created_at, e.id) >= (query.since, least_id) and e.created_at < query.until
      limit 1000001
    ) as e;
    if counted.examined > 1000000 then
      read := null;
      read.decision := 'too_many';
    else
      read.total := counted.matching;
    end if;
    return read;
  end if;

  -- The total: counts of the days from since's up to, not including, until's; minus what that first day has before since;
  -- plus what until's day has before until. Within 28 days there is no whole month:
  if end_day - first_day < 28 then
    read.total := (
      select coalesce(sum(c.entries), 0) from audit_log_private.entry_counts c
      where c.organization_id = count_matching.organization_id and c.day >= first_day and c.day < end_day
        and (wanted_actions is null or c.action = any (wanted_actions))
    );
  else
    whole := audit_log_private.whole_months(first_day, end_day - 1);
    read.total := (
      select coalesce(sum(p.entries), 0)
      from audit_log_private.count_periods(
        organization_id, wanted_actions, first_day, end_day - 1, whole.first_month, whole.end_month
      ) as p
    );
  end if;
  if query.since > first_day::timestamp at time zone 'UTC' or query.until > end_day::timestamp at time zone 'UTC' then
    counted := audit_log_private.count_before(organization_id, wanted_actions, query.since);
    before_until := audit_log_private.count_before(organization_id, wanted_actions, query.until);
    read.earlier_in_hour := counted.in_hour;
    read.earlier_in_day := counted.in_hours + counted.in_hour;
    read.total := read.total - read.earlier_in_day + before_until.in_hours + before_until.in_hour;
  end if;
  return read;
end $$;
comment on function audit_log_private.count_matching is
  'Begins a reading of entries: its total, and no items yet. invalid_query if there are more than 20 actions, or '
  'one is not in the catalogue or given twice. too_many if the query names a person who has more than 1,000,000 '
  'entries in this range. query: as with_defaults gives it.';

create function audit_log_private.count_before(
  organization_id uuid, actions text[], moment timestamptz, out in_hours bigint, out in_hour bigint
)
-- The settings are those of read_page.
language plpgsql stable set search_path = pg_catalog, pg_temp set plan_cache_mode = 'force_generic_plan' set jit = off as $$
declare
  utc constant timestamp := moment at time zone 'UTC';
  hour constant timestamptz := date_trunc('hour', utc) at time zone 'UTC';
begin
  in_hours := 0;
  in_hour := 0;
  if utc > utc::date then
    in_hours := (
      select coalesce(sum((select sum(h) from unnest(c.hours[1 : extract(hour from utc)::integer]) as h)), 0)
      from audit_log_private.entry_counts c
      where c.organization_id = count_before.organization_id and c.day = utc::date
        and (actions is null or c.action = any (actions))
    );
  end if;
  if moment > hour and actions is null then
    in_hour := (
      select count(*) from audit_log.audit_entries e
      where e.organization_id = count_before.organization_id and e.created_at >= hour and e.created_at < moment
    );
  elsif moment > hour then
    in_hour := (
      select count(*) from unnest(actions) as a (action)
      cross join lateral (
        select from audit_log.audit_entries e
        where e.organization_id = count_before.organization_id and e.action = a.action
          and e.created_at >= hour and e.created_at < moment
      ) as e
    );
  end if;
end $$;
comment on function audit_log_private.count_before is
  'How many entries with these actions (null: all) the UTC day has before a moment: in the whole hours, and in '
  'the hour it falls in. The latter are counted in the index.';

create function audit_log_private.whole_months(start_date date, end_date date, out first_month date, out end_month date)
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  first_month := date_trunc('month', (start_date - 1)::timestamp) + interval '1 month';
  end_month := date_trunc('month', (end_date + 1)::timestamp);
  if first_month >= end_month then
    first_month := end_date + 1;
    end_month := first_month;
  end if;
end $$;
comment on function audit_log_private.whole_months is
  'The whole months in a range of days, start and end included: the first month, and the month after the last. '
  'If there is none, both are the day after the range.';

-- Without settings, so that Postgres inlines it. Its names are resolved here, once.
create function audit_log_private.count_periods(
  organization_id uuid, actions text[], start_date date, end_date date, first_month date, end_month date
)
returns table (first_day date, last_day date, entries bigint)
language sql stable
begin atomic
  select c.day, c.day, c.entries::bigint from audit_log_private.entry_counts c
  where c.organization_id = count_periods.organization_id and c.day >= start_date and c.day < first_month
    and (actions is null or c.action = any (actions))
  union all
  select c.day, c.day, c.entries::bigint from audit_log_private.entry_counts c
  where c.organization_id = count_periods.organization_id and c.day >= end_month and c.day <= end_date
    and (actions is null or c.action = any (actions))
  union all
  select s.month, (s.month + interval '1 month' - interval '1 day')::date, s.entries
  from audit_log_private.monthly_entry_counts s
  where s.organization_id = count_periods.organization_id and s.month >= first_month and s.month < end_month
    and (actions is null or s.action = any (actions))
  union all
  -- What the sums of months do not have yet.
  select date_trunc('month', c.day::timestamp)::date,
    (date_trunc('month', c.day::timestamp) + interval '1 month' - interval '1 day')::date, c.entries::bigint
  from audit_log_private.entry_counts c
  where c.organization_id = count_periods.organization_id and c.day >= first_month and c.day < end_month
    and c.writer_pid <> 0 and (actions is null or c.action = any (actions));
end;
comment on function audit_log_private.count_periods is
  'The entries of a range of days, start and end included, counted by the whole months that whole_months gives, '
  'and by day before and after these. A period can have several rows.';
