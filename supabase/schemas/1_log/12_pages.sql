-- One entry; and a page of the log by its offset, at the same cost wherever it lies. The counts lead from the offset to
-- a month, a day and an hour. Only within the hour, entries are skipped.

create function audit_log_private.line_of(organization_id uuid, created_at timestamptz, id uuid) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return (
    select audit_log_private.entry_line(e) from audit_log.audit_entries e
    where e.organization_id = line_of.organization_id and e.created_at = line_of.created_at and e.id = line_of.id
  );
end $$;
comment on function audit_log_private.line_of is 'The entry with exactly this time and id, as a line, or null.';

create function audit_log_private.read_page(organization_id uuid, query audit_log.page_query)
returns audit_log_private.reading
-- Stable: all its statements see the snapshot of the calling statement, so that total and items belong to the
-- same moment. plpgsql keeps plans between calls; force_generic_plan keeps it from planning anew. A generic plan knows
-- no sizes, so its estimates grow with the log, until Postgres compiles it for each page (jit), or reads the whole
-- table for a join in scan.
language plpgsql stable set search_path = pg_catalog, pg_temp
  set plan_cache_mode = 'force_generic_plan' set jit = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  matching constant audit_log_private.matching := audit_log_private.count_matching(organization_id, query);
  entries constant integer := greatest(0, least(query.page_limit, matching.total - query.page_offset));
  -- How many entries lie before the page, oldest first.
  skip constant bigint :=
    case when query.newest_first then matching.total - query.page_offset - entries else query.page_offset end;
  place audit_log_private.place;
  items text;
  read audit_log_private.reading;
begin
  read.decision := matching.decision;
  if matching.decision <> 'accepted' then
    return read;
  end if;
  read.total := matching.total;
  read.entries := entries;
  read.items := '[]';
  if entries = 0 then
    return read;
  end if;
  place := case
    when audit_log_private.searches(query)
      then coalesce(matching.places[skip], audit_log_private.place_before(query.since))
    when query.user_email is null then audit_log_private.place_of(organization_id, query, matching, skip)
    else audit_log_private.place_of_person(organization_id, query, matching, skip)
  end;
  select string_agg(audit_log_private.entry_line(s), E',\n') into strict items
  from (
    select s.* from audit_log_private.scan(
      organization_id, query.actions, query.user_email, place, query.until, 0,
      case when not audit_log_private.searches(query) then entries end
    ) as s
    where audit_log_private.is_found(s, query) limit entries
  ) as s;
  if query.newest_first then
    select string_agg(l.line, E',\n' order by l.number desc) into strict items
    from string_to_table(items, E',\n') with ordinality as l (line, number);
  end if;
  read.items := '[' || items || ']';
  return read;
end $$;
comment on function audit_log_private.read_page is 'A page of an organization''s entries, by its offset.';

create function audit_log_private.place_of(
  organization_id uuid, query audit_log.page_query, matching audit_log_private.matching, skip bigint
) returns audit_log_private.place
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  first_day constant date := query.since at time zone 'UTC';
  last_day constant date := (query.until - interval '1 microsecond') at time zone 'UTC';
  first_month constant date := date_trunc('month', (first_day - 1)::timestamp) + interval '1 month';
  end_month constant date := date_trunc('month', (last_day + 1)::timestamp);
  -- The counts begin at midnight.
  skip_from_midnight constant bigint := matching.earlier_in_whole_hours + matching.earlier_in_its_hour + skip;
  period constant record := audit_log_private.period_at(
    organization_id, query.actions, first_day, last_day, first_month, end_month, skip_from_midnight
  );
  day constant record := audit_log_private.period_at(
    organization_id, query.actions, period.first_day, period.last_day, null, null, period.left_to_skip
  );
  hour constant record := audit_log_private.hour_at(organization_id, query.actions, day.first_day, day.left_to_skip);
  start constant audit_log_private.place := audit_log_private.place_before(greatest(hour.start_time, query.since));
  skip_in_hour constant bigint :=
    hour.left_to_skip - case when hour.start_time < query.since then matching.earlier_in_its_hour else 0 end;
  place audit_log_private.place;
begin
  if skip_in_hour = 0 then
    return start;
  end if;
  select s.created_at, s.id into strict place
  from audit_log_private.scan(
    organization_id, query.actions, null, start, least(query.until, hour.start_time + interval '1 hour'),
    skip_in_hour - 1, 1
  ) as s;
  return place;
end $$;
comment on function audit_log_private.place_of is 'The place after so many of the entries that match, by the counts.';

create function audit_log_private.period_at(
  organization_id uuid, actions text[], start_date date, end_date date, first_month date, end_month date, skip bigint,
  out first_day date, out last_day date, out left_to_skip bigint
)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  if start_date = end_date then
    first_day := start_date;
    last_day := end_date;
    left_to_skip := skip;
    return;
  end if;
  select p.first_day, p.last_day, skip - (p.running_total - p.entries) into strict first_day, last_day, left_to_skip
  from (
    select
      c.first_day, c.last_day, sum(c.entries) as entries,
      sum(sum(c.entries)) over (order by c.first_day) as running_total
    from audit_log_private.count_periods(organization_id, actions, start_date, end_date, first_month, end_month) as c
    group by c.first_day, c.last_day
  ) as p
  where p.running_total > skip
  order by p.first_day limit 1;
end $$;
comment on function audit_log_private.period_at is
  'The period of count_periods in which one arrives after so many entries, and how many of them to skip within it.';

create function audit_log_private.hour_at(
  organization_id uuid, actions text[], day date, skip bigint, out start_time timestamptz, out left_to_skip bigint
)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  midnight constant timestamptz := day::timestamp at time zone 'UTC';
begin
  if skip = 0 then
    start_time := midnight;
    left_to_skip := 0;
    return;
  end if;
  select midnight + h.hour * interval '1 hour', skip - (h.running_total - h.entries)
  into strict start_time, left_to_skip
  from (
    select
      u.hour - 1 as hour, sum(u.entries) as entries,
      sum(sum(u.entries)::integer) over (order by u.hour) as running_total
    from audit_log_private.entry_counts c cross join unnest(c.hours) with ordinality as u (entries, hour)
    where c.organization_id = hour_at.organization_id and c.day = hour_at.day
      and (actions is null or c.action = any (actions))
    group by u.hour
  ) as h
  where h.running_total > skip
  order by h.hour limit 1;
end $$;
comment on function audit_log_private.hour_at is
  'The hour of a day in which one arrives after so many entries, and how many of them to skip within it.';

create function audit_log_private.place_of_person(
  organization_id uuid, query audit_log.page_query, matching audit_log_private.matching, skip bigint
) returns audit_log_private.place
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  start constant audit_log_private.place := audit_log_private.place_before(query.since);
  place audit_log_private.place;
begin
  if skip = 0 then
    return start;
  elsif skip <= matching.total / 2 then
    select s.created_at, s.id into strict place
    from audit_log_private.scan(
      organization_id, query.actions, query.user_email, start, query.until, skip - 1, 1
    ) as s;
  else
    select e.created_at, e.id into strict place from audit_log.audit_entries e
    where e.organization_id = place_of_person.organization_id and lower(e.user_email) = query.user_email
      and (e.created_at, e.id) > (start.created_at, start.id) and e.created_at < query.until
      and (query.actions is null or e.action = any (query.actions))
    order by e.created_at desc, e.id desc limit 1 offset matching.total - skip;
  end if;
  return place;
end $$;
comment on function audit_log_private.place_of_person is 'What place_of returns for a person, who has no counts.';
