-- A page of the log by its offset, at the same cost wherever it lies.
--
-- Every read function (read_page, read_feed, read_seals, read_actions) returns a reading, which begins with what happened.

create type audit_log.page_query as (
  -- UTC days, both included.
  start_date date,
  end_date date,
  -- Times within these days: since is included, until is not.
  since timestamptz,
  until timestamptz,
  -- Null for all. At most 20.
  actions text[],
  -- Without regard to capitals.
  user_email text,
  page_limit integer,
  page_offset bigint,
  newest_first boolean,
  -- beginning, or the cursor of the last answer. With it, page_offset and newest_first do not apply.
  after text
);
comment on type audit_log.page_query is 'A query: everything that a reader asks for, passed as one value from the query string to the tables. Make it by names, never as a row: later versions add fields.';

create type audit_log_private.reading as (
  -- accepted; or why nothing was read, and then nothing else is given: invalid_query (the action is not in the
  -- catalogue), invalid_cursor, too_many (to count).
  decision text,
  total bigint,
  -- For read_page: how many matching entries of since's day lie before since, and how many of them are in since's hour.
  -- Null if since and until are midnights.
  earlier_in_day bigint,
  earlier_in_hour bigint,
  -- Those of the page: the text of a JSON array with each item on a line of its own. The Edge Function passes these
  -- lines on without parsing them. There is a line break between two items, and nowhere else.
  items text,
  -- How many entries these are, and how they were read: pages or feed. For the usage of a key.
  entries integer,
  reads text,
  -- Of the feed: the cursor to go on with, and whether it leads to more now.
  cursor text,
  has_more boolean,
  -- Of seals: the altered days.
  altered json
);
comment on type audit_log_private.reading is 'What a read function answers. A null field is not given.';

create function audit_log_private.with_defaults(query audit_log.page_query) returns audit_log.page_query
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  query.since := greatest(query.since, coalesce(query.start_date, '0001-01-01')::timestamp at time zone 'UTC');
  query.until := least(query.until, (coalesce(query.end_date, '9999-12-31') + 1)::timestamp at time zone 'UTC');
  query.actions := nullif(query.actions, '{}');
  query.user_email := lower(query.user_email collate "C");
  query.page_limit := coalesce(query.page_limit, 100);
  query.page_offset := coalesce(query.page_offset, 0);
  -- "return query" is another statement.
  return (query);
end $$;
comment on function audit_log_private.with_defaults is 'A query as read functions take it: with the defaults of the API, with the whole range in since and until, and the address in small letters.';

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
  read.reads := 'pages';
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
comment on function audit_log_private.read_page is 'A page of an organization''s entries, by its offset. query: as with_defaults gives it.';

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
comment on function audit_log_private.count_matching is 'Begins a reading of entries: its total, and no items yet. invalid_query if there are more than 20 actions, or one is not in the catalogue or given twice. too_many if the query names a person who has more than 1,000,000 entries in this range. query: as with_defaults gives it.';

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
comment on function audit_log_private.count_before is 'How many entries with these actions (null: all) the UTC day has before a moment: in the whole hours, and in the hour it falls in. The latter are counted in the index.';

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
comment on function audit_log_private.whole_months is 'The whole months in a range of days, start and end included: the first month, and the month after the last. If there is none, both are the day after the range.';

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
comment on function audit_log_private.count_periods is 'The entries of a range of days, start and end included, counted by the whole months that whole_months gives, and by day before and after these. A period can have several rows.';
