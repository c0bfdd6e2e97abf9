-- A page of the log by its offset, at the same cost wherever it lies.

create function private.whole_months(
  start_date date,
  end_date date,
  out first_month date,
  out end_month date
)
language plpgsql immutable set search_path = pg_catalog, pg_temp
as $$
begin
  first_month := date_trunc('month', (start_date - 1)::timestamp) + interval '1 month';
  end_month := date_trunc('month', (end_date + 1)::timestamp);
  if first_month >= end_month then
    first_month := end_date + 1;
    end_month := end_date + 1;
  end if;
end
$$;
comment on function private.whole_months is 'The whole months in a range of days, start and end included: the first month, and the month after the last. If there is none, both are the day after the range.';
revoke execute on function private.whole_months from public, anon, authenticated, service_role;

create function private.count_matching(
  organization_id uuid,
  start_date date,
  end_date date,
  action public.audit_action
) returns bigint
language plpgsql stable set search_path = pg_catalog, pg_temp set plan_cache_mode = 'force_generic_plan' set jit = off
as $$
declare
  whole constant record := private.whole_months(start_date, end_date);
  first_month constant date := whole.first_month;
  end_month constant date := whole.end_month;
  total bigint;
begin
  -- The days before the whole months, the days after them, the months, and what is not in their sums yet.
  select coalesce(sum(c.entries), 0) into total
  from private.entry_counts c
  where c.organization_id = count_matching.organization_id
    and c.day >= start_date and c.day < first_month
    and (count_matching.action is null or c.action = count_matching.action);
  if first_month = end_month then
    return total;
  end if;
  return total + (
    select coalesce(sum(c.entries), 0)
    from private.entry_counts c
    where c.organization_id = count_matching.organization_id
      and c.day >= end_month and c.day <= end_date
      and (count_matching.action is null or c.action = count_matching.action)
  ) + (
    select coalesce(sum(s.entries), 0)
    from private.monthly_entry_counts s
    where s.organization_id = count_matching.organization_id
      and s.month >= first_month and s.month < end_month
      and (count_matching.action is null or s.action = count_matching.action)
  ) + (
    select coalesce(sum(c.entries), 0)
    from private.entry_counts c
    where c.organization_id = count_matching.organization_id
      and c.writer_pid <> 0
      and c.day >= first_month and c.day < end_month
      and (count_matching.action is null or c.action = count_matching.action)
  );
end
$$;
comment on function private.count_matching is 'How many entries an organization has in a range of UTC days, start and end included, of one action or of all.';
revoke execute on function private.count_matching from public, anon, authenticated, service_role;

create function private.read_page(
  organization_id uuid,
  start_date date,
  end_date date,
  action public.audit_action,
  page_limit integer,
  page_offset bigint,
  newest_first boolean,
  out page json,
  out entries integer
)
-- Stable: all its statements see the snapshot of the calling statement, so that total and items belong to the
-- same moment. plpgsql keeps plans between calls; force_generic_plan keeps it from planning anew.
-- A generic plan knows no sizes, so its estimates grow with the log: from some 40 million entries on, Postgres
-- compiled it for each page (jit), for 40 ms.
language plpgsql stable set search_path = pg_catalog, pg_temp set plan_cache_mode = 'force_generic_plan' set jit = off
as $$
declare
  total bigint;
  items text;
  range_end constant timestamptz := (end_date + 1)::timestamp at time zone 'UTC';
  -- How many entries lie before the page, oldest first: of the range, then of its first month, day and
  -- hour. Only those of the hour are read and skipped.
  skip bigint;
  whole constant record := private.whole_months(start_date, end_date);
  first_month constant date := whole.first_month;
  end_month constant date := whole.end_month;
  first_day date := start_date;
  last_day date := end_date;
  first_hour timestamptz;
begin
  total := private.count_matching(organization_id, start_date, end_date, action);
  entries := greatest(0, least(page_limit, total - page_offset));
  if entries = 0 then
    page := json_build_object('total', total, 'items', E'\n[]\n'::json);
    return;
  end if;
  skip := case when newest_first then total - page_offset - entries else page_offset end;

  if first_month < end_month then
    -- The month, or the day outside whole months, in which the page begins.
    select p.first_day, p.last_day, skip - (p.running_total - p.entries) into strict first_day, last_day, skip
    from (
      select d.first_day, d.last_day, sum(d.entries) as entries, sum(sum(d.entries)) over (order by d.first_day) as running_total
      from (
        select c.day as first_day, c.day as last_day, c.entries
        from private.entry_counts c
        where c.organization_id = read_page.organization_id
          and c.day >= start_date and c.day < first_month
          and (read_page.action is null or c.action = read_page.action)
        union all
        select c.day, c.day, c.entries
        from private.entry_counts c
        where c.organization_id = read_page.organization_id
          and c.day >= end_month and c.day <= end_date
          and (read_page.action is null or c.action = read_page.action)
        union all
        select s.month, (s.month + interval '1 month' - interval '1 day')::date, s.entries
        from private.monthly_entry_counts s
        where s.organization_id = read_page.organization_id
          and s.month >= first_month and s.month < end_month
          and (read_page.action is null or s.action = read_page.action)
        union all
        select date_trunc('month', c.day::timestamp)::date,
          (date_trunc('month', c.day::timestamp) + interval '1 month' - interval '1 day')::date, c.entries
        from private.entry_counts c
        where c.organization_id = read_page.organization_id
          and c.writer_pid <> 0
          and c.day >= first_month and c.day < end_month
          and (read_page.action is null or c.action = read_page.action)
      ) as d
      group by d.first_day, d.last_day
    ) as p
    where p.running_total > skip
    order by p.first_day
    limit 1;
  end if;

  if first_day < last_day then
    select d.day, skip - (d.running_total - d.entries) into strict first_day, skip
    from (
      select c.day, sum(c.entries) as entries, sum(sum(c.entries)::integer) over (order by c.day) as running_total
      from private.entry_counts c
      where c.organization_id = read_page.organization_id
        and c.day between first_day and last_day
        and (read_page.action is null or c.action = read_page.action)
      group by c.day
    ) as d
    where d.running_total > skip
    order by d.day
    limit 1;
  end if;

  first_hour := first_day::timestamp at time zone 'UTC';
  if skip > 0 then
    select first_hour + h.hour * interval '1 hour', skip - (h.running_total - h.entries)
    into strict first_hour, skip
    from (
      select u.hour - 1 as hour, sum(u.entries) as entries, sum(sum(u.entries)::integer) over (order by u.hour) as running_total
      from private.entry_counts c cross join unnest(c.hours) with ordinality as u (entries, hour)
      where c.organization_id = read_page.organization_id
        and c.day = first_day
        and (read_page.action is null or c.action = read_page.action)
      group by u.hour
    ) as h
    where h.running_total > skip
    order by h.hour
    limit 1;
  end if;

  select coalesce(
    string_agg(i.item, E',\n' order by i.created_at, i.id) filter (where not newest_first),
    string_agg(i.item, E',\n' order by i.created_at desc, i.id desc) filter (where newest_first)
  )
  into strict items
  from (
    select
      e.created_at,
      e.id,
      -- Concatenated text takes half the time of json_build_object, and has no spaces.
      '{"id":"' || e.id
        || '","created_at":"' || to_char(e.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
        || '","action":"' || e.action
        || '","user_email":' || to_json(e.user_email)
        || ',"agent_name":' || to_json(e.agent_name)
        || ',"data":' || e.data
        || '}' as item
    from (
      -- Two branches for two indexes. The one whose first condition is false is never started. The second
      -- compares rows, so that the generic plan, which knows no sizes, cannot choose another index.
      (
        select e.* from public.audit_entries e
        where read_page.action is null
          and e.organization_id = read_page.organization_id
          and e.created_at >= first_hour and e.created_at < range_end
        order by e.created_at, e.id
        limit entries offset skip
      )
      union all
      (
        select e.* from public.audit_entries e
        where read_page.action is not null
          and e.organization_id = read_page.organization_id
          and (e.action, e.created_at) >= (read_page.action, first_hour)
          and (e.action, e.created_at) < (read_page.action, range_end)
        order by e.action, e.created_at, e.id
        limit entries offset skip
      )
    ) as e
  ) as i;
  -- The Edge Function passes on what lies between the first and the last line break without parsing it.
  -- There is a line break between two items, and nowhere else.
  page := json_build_object('total', total, 'items', (E'\n[' || items || E']\n')::json);
end
$$;
comment on function private.read_page is 'A page of an organization''s entries in a range of UTC days, start and end included: {total, items}, each item on a line of its own, and how many entries the page has.';
revoke execute on function private.read_page from public, anon, authenticated, service_role;
