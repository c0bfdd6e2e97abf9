-- How many entries match a query, by the counts of 1_log/07_entries.sql, which 7_running/05_upkeep.sql looks after.

create type audit_log_private.matching as (
  -- accepted, invalid_query or too_many, as in a reading.
  decision text,
  total bigint,
  -- How many matching entries the day of since has before since, as count_before gives them. Null for a person.
  earlier_in_whole_hours bigint,
  earlier_in_its_hour bigint,
  -- If the query searches, instead: the place after each matching entry.
  places audit_log_private.place[]
);
comment on type audit_log_private.matching is 'What count_matching returns.';

create function audit_log_private.count_matching(organization_id uuid, query audit_log.page_query)
returns audit_log_private.matching
-- The settings are those of read_page.
language plpgsql stable set search_path = pg_catalog, pg_temp
  set plan_cache_mode = 'force_generic_plan' set jit = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  matching audit_log_private.matching;
begin
  if query.actions is not null then
    perform from audit_log.actions a where a.code = any (query.actions) having count(*) = cardinality(query.actions);
    -- actions[1] is null for an array of arrays.
    if not found or query.actions[1] is null or cardinality(query.actions) > 20 then
      matching.decision := 'invalid_query';
      return matching;
    end if;
  end if;
  if query.user_email is not null then
    -- No counts have persons: counted in the index, up to a bound.
    select
      case when count(*) > 1000000 then 'too_many' else 'accepted' end,
      case when count(*) <= 1000000 then
        count(*) filter (where query.actions is null or e.action = any (query.actions))
      end
    into strict matching.decision, matching.total
    from (
      select e.action from audit_log.audit_entries e
      where e.organization_id = count_matching.organization_id and lower(e.user_email) = query.user_email
        -- Postgres takes a column between two values for a narrow range, and might then read all entries of the
        -- organization in it instead of the person's. So since is compared with two columns.
        and (e.created_at, e.id) >= (query.since, '00000000-0000-0000-0000-000000000000') and e.created_at < query.until
      limit 1000001
    ) as e;
  else
    matching := audit_log_private.count_between(organization_id, query.actions, query.since, query.until);
  end if;
  if not audit_log_private.searches(query) or matching.decision <> 'accepted'
    or query.after is not null and matching.total > 25000
  then
    return matching;
  elsif matching.total > 25000 then
    return ('too_many', null, null, null, null)::audit_log_private.matching;
  end if;
  select 'accepted', count(*), null::bigint, null::bigint, array_agg((s.created_at, s.id)::audit_log_private.place)
  into strict matching
  from audit_log_private.scan(
    organization_id, query.actions, query.user_email, audit_log_private.place_before(query.since), query.until, 0, null
  ) as s
  where audit_log_private.is_found(s, query);
  return matching;
end $$;
comment on function audit_log_private.count_matching is
  'How many entries match a query, as with_defaults gives it. too_many: of a person, more than 1,000,000; if '
  'it searches, more than 25,000 are left to look through (with after, these are the total).';

create function audit_log_private.count_between(
  organization_id uuid, actions text[], since timestamptz, until timestamptz
) returns audit_log_private.matching
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  first_day constant date := since at time zone 'UTC';
  end_day constant date := until at time zone 'UTC';
  first_month constant date := date_trunc('month', (first_day - 1)::timestamp) + interval '1 month';
  end_month constant date := date_trunc('month', end_day::timestamp);
  before_since constant record := audit_log_private.count_before(organization_id, actions, since);
  before_until constant record := audit_log_private.count_before(organization_id, actions, until);
  -- From the beginning of since's day to the beginning of until's.
  in_days constant bigint := (
    select coalesce(sum(p.entries), 0)
    from audit_log_private.count_periods(organization_id, actions, first_day, end_day - 1, first_month, end_month) as p
  );
begin
  return (
    'accepted',
    in_days - before_since.in_whole_hours - before_since.in_its_hour
      + before_until.in_whole_hours + before_until.in_its_hour,
    before_since.in_whole_hours, before_since.in_its_hour, null
  )::audit_log_private.matching;
end $$;
comment on function audit_log_private.count_between is 'The entries with these actions (null: all), by the counts.';

create function audit_log_private.count_before(
  organization_id uuid, actions text[], moment timestamptz, out in_whole_hours bigint, out in_its_hour bigint
)
-- The settings are those of read_page.
language plpgsql stable set search_path = pg_catalog, pg_temp
  set plan_cache_mode = 'force_generic_plan' set jit = off as $$
declare
  utc constant timestamp := moment at time zone 'UTC';
  hour constant timestamptz := date_trunc('hour', utc) at time zone 'UTC';
begin
  in_whole_hours := 0;
  in_its_hour := 0;
  if utc > utc::date then
    in_whole_hours := (
      select coalesce(sum((select sum(h) from unnest(c.hours[1 : extract(hour from utc)::integer]) as h)), 0)
      from audit_log_private.entry_counts c
      where c.organization_id = count_before.organization_id and c.day = utc::date
        and (actions is null or c.action = any (actions))
    );
  end if;
  if moment > hour and actions is null then
    in_its_hour := (
      select count(*) from audit_log.audit_entries e
      where e.organization_id = count_before.organization_id and e.created_at >= hour and e.created_at < moment
    );
  elsif moment > hour then
    in_its_hour := (
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
  'How many entries with these actions (null: all) the UTC day has before a moment: in whole hours, and in its hour.';

-- Without settings, so that Postgres inlines it. Its names are resolved here, once.
create function audit_log_private.count_periods(
  organization_id uuid, actions text[], start_date date, end_date date, first_month date, end_month date
)
returns table (first_day date, last_day date, entries bigint)
language sql stable
begin atomic
  select c.day, c.day, c.entries::bigint from audit_log_private.entry_counts c
  where c.organization_id = count_periods.organization_id
    and c.day >= start_date and c.day < least(first_month, end_date + 1)
    and (actions is null or c.action = any (actions))
  union all
  select c.day, c.day, c.entries::bigint from audit_log_private.entry_counts c
  where c.organization_id = count_periods.organization_id
    and c.day >= greatest(first_month, end_month) and c.day <= end_date
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
  'The entries of a range of days: by month from first_month to before end_month (null: none), and by day before '
  'and after. If no month is whole, first_month is not before end_month. A period can have several rows.';
