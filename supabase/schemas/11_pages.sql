-- A page of the log by its offset, at the same cost wherever it lies.

create function audit_log_private.read_page(organization_id uuid, query audit_log.page_query)
returns audit_log_private.reading
-- Stable: all its statements see the snapshot of the calling statement, so that total and items belong to the
-- same moment. plpgsql keeps plans between calls; force_generic_plan keeps it from planning anew. A generic plan knows
-- no sizes, so its estimates grow with the log, until Postgres compiles it for each page (jit).
language plpgsql stable set search_path = pg_catalog, pg_temp set plan_cache_mode = 'force_generic_plan' set jit = off as $$
declare
  wanted_actions constant text[] := query.actions;
  wanted_email constant text := query.user_email;
  -- Of a person, (created_at, id) is compared with (since, least_id). Postgres takes a column between two values for a
  -- narrow range, and might then read all entries of the organization in it instead of the person's.
  least_id constant uuid := uuid '00000000-0000-0000-0000-000000000000';
  read audit_log_private.reading := audit_log_private.count_matching(organization_id, query);
  entries bigint;
  -- How many entries lie before the page, oldest first: of the range, then of its first period, day and
  -- hour. Only those of the hour are read and skipped.
  skip bigint;
  person_skip bigint;
  from_end boolean;
  first_day date := query.since at time zone 'UTC';
  last_day date := (query.until - interval '1 microsecond') at time zone 'UTC';
  whole record;
  first_hour timestamptz;
  items text;
begin
  if read.decision <> 'accepted' then
    return read;
  end if;
  read.read_mode := 'pages';
  entries := greatest(0, least(query.page_limit, read.total - query.page_offset));
  if entries = 0 then
    return read;
  end if;
  read.entries := entries;
  skip := case when query.newest_first then read.total - query.page_offset - entries else query.page_offset end;

  -- A person has no counts to find a place by: their entries are skipped in the index, from the nearer end.
  if wanted_email is not null then
    person_skip := least(skip, read.total - skip - entries);
    from_end := person_skip < skip;
    last_day := first_day;
    skip := 0;
  elsif read.earlier_in_day > 0 then
    -- The counts lead to the page from the beginning of the first day.
    skip := skip + read.earlier_in_day;
  end if;
  -- A first page, too, is looked for: many entries before it may be deleted, and still in the index.
  if first_day < last_day then
    whole := audit_log_private.whole_months(first_day, last_day);
    select p.first_day, p.last_day, skip - (p.running_total - p.entries) into strict first_day, last_day, skip
    from (
      select c.first_day, c.last_day, sum(c.entries) as entries, sum(sum(c.entries)) over (order by c.first_day) as running_total
      from audit_log_private.count_periods(
        organization_id, wanted_actions, first_day, last_day, whole.first_month, whole.end_month
      ) as c
      group by c.first_day, c.last_day
    ) as p
    where p.running_total > skip
    order by p.first_day limit 1;
  end if;
  if first_day < last_day then
    select d.day, skip - (d.running_total - d.entries) into strict first_day, skip
    from (
      select c.day, sum(c.entries) as entries, sum(sum(c.entries)) over (order by c.day) as running_total
      from audit_log_private.entry_counts c
      where c.organization_id = read_page.organization_id and c.day >= first_day and c.day <= last_day
        and (wanted_actions is null or c.action = any (wanted_actions))
      group by c.day
    ) as d
    where d.running_total > skip
    order by d.day limit 1;
  end if;
  first_hour := first_day::timestamp at time zone 'UTC';
  if skip > 0 then
    select first_hour + h.hour * interval '1 hour', skip - (h.running_total - h.entries)
    into strict first_hour, skip
    from (
      select u.hour - 1 as hour, sum(u.entries) as entries, sum(sum(u.entries)::integer) over (order by u.hour) as running_total
      from audit_log_private.entry_counts c cross join unnest(c.hours) with ordinality as u (entries, hour)
      where c.organization_id = read_page.organization_id
        and c.day = first_day
        and (wanted_actions is null or c.action = any (wanted_actions))
      group by u.hour
    ) as h
    where h.running_total > skip
    order by h.hour limit 1;
  end if;
  if first_hour < query.since and wanted_email is null then
    skip := skip - read.earlier_in_hour;
  end if;

  -- A statement for each index, in its order. (A row comparison that begins with an equal column, such as
  -- (action, created_at) < (…), would not end the scan at the end of the range.)
  if wanted_email is not null then
    -- Skips within the index, and only then visits the entries.
    select string_agg(audit_log_private.entry_line(e), E',\n' order by e.created_at, e.id) into strict items
    from (
      (
        select e.created_at, e.id from audit_log.audit_entries e
        where not from_end and e.organization_id = read_page.organization_id and lower(e.user_email) = wanted_email
          and (e.created_at, e.id) >= (query.since, least_id) and e.created_at < query.until
          and (wanted_actions is null or e.action = any (wanted_actions))
        order by e.created_at, e.id limit entries offset person_skip
      )
      union all
      (
        select e.created_at, e.id from audit_log.audit_entries e
        where from_end and e.organization_id = read_page.organization_id and lower(e.user_email) = wanted_email
          and (e.created_at, e.id) >= (query.since, least_id) and e.created_at < query.until
          and (wanted_actions is null or e.action = any (wanted_actions))
        order by e.created_at desc, e.id desc limit entries offset person_skip
      )
    ) as place
    join audit_log.audit_entries e
      on e.organization_id = read_page.organization_id and e.created_at = place.created_at and e.id = place.id;
  elsif wanted_actions is null then
    select string_agg(audit_log_private.entry_line(e::audit_log.audit_entries), E',\n') into strict items
    from (
      select e.* from audit_log.audit_entries e
      where e.organization_id = read_page.organization_id and e.created_at >= greatest(first_hour, query.since) and e.created_at < query.until
      order by e.created_at, e.id limit entries offset skip
    ) as e;
  elsif cardinality(wanted_actions) = 1 then
    select string_agg(audit_log_private.entry_line(e::audit_log.audit_entries), E',\n') into strict items
    from (
      select e.* from audit_log.audit_entries e
      where e.organization_id = read_page.organization_id and e.action = wanted_actions[1]
        and e.created_at >= greatest(first_hour, query.since) and e.created_at < query.until
      order by e.created_at, e.id limit entries offset skip
    ) as e;
  else
    -- Each action is read in its own order, within the index. Beyond the hour in which entries are skipped, none can
    -- have more than the page takes.
    select string_agg(audit_log_private.entry_line(e::audit_log.audit_entries), E',\n' order by e.created_at, e.id)
    into strict items
    from (
      select place.created_at, place.id
      from unnest(wanted_actions) as wanted (action)
      cross join (
        values
          (greatest(first_hour, query.since), least(query.until, first_hour + interval '1 hour'), skip + entries),
          (first_hour + interval '1 hour', query.until, entries)
      ) as span (start_time, end_time, most)
      cross join lateral (
        select e.created_at, e.id from audit_log.audit_entries e
        where e.organization_id = read_page.organization_id and e.action = wanted.action
          and e.created_at >= span.start_time and e.created_at < span.end_time
        order by e.created_at, e.id limit span.most
      ) as place
      order by place.created_at, place.id limit entries offset skip
    ) as place
    -- Without offset 0, a generic plan would read the whole table to join it.
    cross join lateral (
      select e.* from audit_log.audit_entries e
      where e.organization_id = read_page.organization_id and e.created_at = place.created_at and e.id = place.id
      offset 0
    ) as e;
  end if;
  if query.newest_first then
    select string_agg(l.line, E',\n' order by l.place desc) into strict items
    from string_to_table(items, E',\n') with ordinality as l (line, place);
  end if;
  read.items := '[' || items || ']';
  return read;
end $$;
comment on function audit_log_private.read_page is
  'A page of an organization''s entries, by its offset. query: as with_defaults gives it.';
