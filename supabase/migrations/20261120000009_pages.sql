-- A page of the log by its offset, at the same cost wherever it lies.

create type audit_log.page_query as (
  -- UTC days, both included.
  start_date date,
  end_date date,
  -- Null for all actions.
  action audit_log.audit_action,
  page_limit integer,
  page_offset bigint,
  newest_first boolean,
  -- beginning, or the next of the answer before: then page_offset and newest_first do not apply.
  after text
);
comment on type audit_log.page_query is 'What a reader asks for, whole: one value from the query string to the tables.';

create function audit_log_private.count_periods(organization_id uuid, query audit_log.page_query, by_month boolean)
returns table (first_day date, last_day date, entries bigint)
language plpgsql stable set search_path = pg_catalog, pg_temp set plan_cache_mode = 'force_generic_plan' set jit = off as $$
declare
  -- Locals, because a generic plan takes them as parameters, and would take the value apart for each row.
  start_date constant date := query.start_date;
  end_date constant date := query.end_date;
  wanted_action constant audit_log.audit_action := query.action;
  first_month date := date_trunc('month', (start_date - 1)::timestamp) + interval '1 month';
  end_month date := date_trunc('month', (end_date + 1)::timestamp);
begin
  if not by_month or first_month >= end_month then
    first_month := end_date + 1;
    end_month := first_month;
  end if;
  return query
    select c.day, c.day, c.entries::bigint from audit_log_private.entry_counts c
    where c.organization_id = count_periods.organization_id
      and c.day >= start_date and c.day < first_month
      and (wanted_action is null or c.action = wanted_action);
  if first_month = end_month then
    return;
  end if;
  return query
    select c.day, c.day, c.entries::bigint from audit_log_private.entry_counts c
    where c.organization_id = count_periods.organization_id
      and c.day >= end_month and c.day <= end_date
      and (wanted_action is null or c.action = wanted_action)
    union all
    select s.month, (s.month + interval '1 month' - interval '1 day')::date, s.entries
    from audit_log_private.monthly_entry_counts s
    where s.organization_id = count_periods.organization_id
      and s.month >= first_month and s.month < end_month
      and (wanted_action is null or s.action = wanted_action)
    union all
    -- What the sums of months do not have yet.
    select date_trunc('month', c.day::timestamp)::date,
      (date_trunc('month', c.day::timestamp) + interval '1 month' - interval '1 day')::date, c.entries::bigint
    from audit_log_private.entry_counts c
    where c.organization_id = count_periods.organization_id
      and c.writer_pid <> 0
      and c.day >= first_month and c.day < end_month
      and (wanted_action is null or c.action = wanted_action);
end $$;
comment on function audit_log_private.count_periods is 'The entries that match a query, counted by day, or by whole months and by the days before and after these. A period can have several rows.';

create function audit_log_private.count_matching(organization_id uuid, query audit_log.page_query) returns bigint
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return coalesce((select sum(p.entries) from audit_log_private.count_periods(organization_id, query, true) p), 0);
end $$;
comment on function audit_log_private.count_matching is 'How many entries match a query.';

create function audit_log_private.read_page(
  organization_id uuid, query audit_log.page_query, out page json, out entries integer
)
-- Stable: all its statements see the snapshot of the calling statement, so that total and items belong to the
-- same moment. plpgsql keeps plans between calls; force_generic_plan keeps it from planning anew.
-- A generic plan knows no sizes, so its estimates grow with the log: from some 40 million entries on, Postgres
-- compiled it for each page (jit), for 40 ms.
language plpgsql stable set search_path = pg_catalog, pg_temp set plan_cache_mode = 'force_generic_plan' set jit = off as $$
declare
  wanted_action constant audit_log.audit_action := query.action;
  newest_first constant boolean := query.newest_first;
  total constant bigint := audit_log_private.count_matching(organization_id, query);
  range_end constant timestamptz := (query.end_date + 1)::timestamp at time zone 'UTC';
  -- How many entries lie before the page, oldest first: of the range, then of its first period, day and
  -- hour. Only those of the hour are read and skipped.
  skip bigint;
  first_day date := query.start_date;
  last_day date := query.end_date;
  first_hour timestamptz;
  place audit_log.page_query := query;
  by_month boolean := true;
  items text;
begin
  entries := greatest(0, least(query.page_limit, total - query.page_offset));
  if entries = 0 then
    page := json_build_object('total', total, 'items', E'\n[]\n'::json);
    return;
  end if;
  skip := case when newest_first then total - query.page_offset - entries else query.page_offset end;

  -- First a day or a whole month, then the day of that month.
  while first_day < last_day loop
    select p.first_day, p.last_day, skip - (p.running_total - p.entries) into strict first_day, last_day, skip from (
      select c.first_day, c.last_day, sum(c.entries) as entries, sum(sum(c.entries)) over (order by c.first_day) as running_total
      from audit_log_private.count_periods(organization_id, place, by_month) as c
      group by c.first_day, c.last_day
    ) as p
    where p.running_total > skip
    order by p.first_day limit 1;
    place.start_date := first_day;
    place.end_date := last_day;
    by_month := false;
  end loop;
  first_hour := first_day::timestamp at time zone 'UTC';
  if skip > 0 then
    select first_hour + h.hour * interval '1 hour', skip - (h.running_total - h.entries)
    into strict first_hour, skip
    from (
      select u.hour - 1 as hour, sum(u.entries) as entries, sum(sum(u.entries)::integer) over (order by u.hour) as running_total
      from audit_log_private.entry_counts c cross join unnest(c.hours) with ordinality as u (entries, hour)
      where c.organization_id = read_page.organization_id
        and c.day = first_day
        and (wanted_action is null or c.action = wanted_action)
      group by u.hour
    ) as h
    where h.running_total > skip
    order by h.hour limit 1;
  end if;

  select coalesce(
    string_agg(audit_log_private.entry_line(e::audit_log.audit_entries), E',\n' order by e.created_at, e.id)
      filter (where not newest_first),
    string_agg(audit_log_private.entry_line(e::audit_log.audit_entries), E',\n' order by e.created_at desc, e.id desc)
      filter (where newest_first)
  )
  into strict items
  from (
    -- Two branches for two indexes. The one whose first condition is false is never started. The second
    -- compares rows, so that the generic plan, which knows no sizes, cannot choose another index.
    (
      select e.* from audit_log.audit_entries e
      where wanted_action is null
        and e.organization_id = read_page.organization_id
        and e.created_at >= first_hour and e.created_at < range_end
      order by e.created_at, e.id limit entries offset skip
    )
    union all
    (
      select e.* from audit_log.audit_entries e
      where wanted_action is not null
        and e.organization_id = read_page.organization_id
        and (e.action, e.created_at) >= (wanted_action, first_hour)
        and (e.action, e.created_at) < (wanted_action, range_end)
      order by e.action, e.created_at, e.id limit entries offset skip
    )
  ) as e;
  -- The Edge Function passes on what lies between the first and the last line break without parsing it.
  -- There is a line break between two items, and nowhere else.
  page := json_build_object('total', total, 'items', (E'\n[' || items || E']\n')::json);
end $$;
comment on function audit_log_private.read_page is 'A page of an organization''s entries: {total, items}, each item on a line of its own, and how many entries the page has.';
