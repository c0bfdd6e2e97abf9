-- What administrators read of their organization in the console. Their reads are counted like those of keys.

create function audit_log_private.check_days(start_date date, end_date date) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  if start_date is null or end_date is null or start_date > end_date then
    raise exception 'start_date and end_date must be two days, and the first not after the second' using errcode = 'invalid_parameter_value';
  end if;
end $$;
comment on function audit_log_private.check_days is 'Raises 22023 unless two days are a range.';

create function audit_log_private.checked_query(query audit_log.page_query) returns audit_log.page_query
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  if query.action is not null then
    perform from audit_log.actions a where a.code = query.action;
    if not found then
      raise exception 'there is no action "%"', query.action using errcode = 'invalid_parameter_value';
    end if;
  end if;
  perform audit_log_private.check_days(query.start_date, query.end_date);
  query.page_limit := coalesce(query.page_limit, 100);
  query.page_offset := coalesce(query.page_offset, 0);
  if query.page_limit not between 1 and 1000 or query.page_offset < 0 then
    raise exception 'page_limit must be from 1 to 1000, and page_offset not below 0' using errcode = 'invalid_parameter_value';
  end if;
  query.newest_first := coalesce(query.newest_first, true);
  -- "return query" is another statement.
  return (query);
end $$;
comment on function audit_log_private.checked_query is 'A query of a person with its defaults: 100 entries, newest first. Raises 22023 if it is not lawful.';

create function audit_log_private.read_audit_log(organization_id uuid, query audit_log.page_query) returns json
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  read json;
  page json;
  entries integer;
begin
  perform audit_log_private.require_admin(organization_id);
  perform set_config('synchronous_commit', 'on', true); -- As in answer_request.
  read := audit_log_private.at_home(organization_id, 'read_resource', 'entries', audit_log_private.checked_query(query))::json;
  entries := read ->> 'entries';
  if entries is null then
    raise exception 'after is not a cursor of this organization for the same days, action and user_email, or one from before a restore: start again with after=beginning' using errcode = 'AL003';
  end if;
  page := (read ->> 'page')::json;
  if page is null then
    raise exception 'user_email has more than 1,000,000 entries in these days: ask for fewer days' using errcode = 'invalid_parameter_value';
  end if;
  perform audit_log_private.count_read(organization_id, entries);
  -- Items as text, because a client's parser would round long numbers in data.
  return json_build_object('total', page -> 'total', 'items', page ->> 'items', 'next', page -> 'next', 'has_more', page -> 'has_more');
end $$;
comment on function audit_log_private.read_audit_log is 'audit_log.read_audit_log, with its owner''s rights.';

create function audit_log.read_audit_log(organization_id uuid, query audit_log.page_query) returns json
language sql volatile set search_path = pg_catalog, pg_temp
as $$ select audit_log_private.read_audit_log(organization_id, query) $$;
comment on function audit_log.read_audit_log is 'A page of an organization''s log: {total, items, next, has_more}. The query needs start_date and end_date; without page_limit the page has up to 100 entries, at most 1000; without newest_first, the newest come first. items is the text of a JSON array. With after, items are the entries that the cursor has not seen, next is the next cursor, and has_more says whether it leads to more now. Without after, next and has_more are null. A wrong cursor is AL003; a query without days, with an unlawful page_limit or page_offset or an action that is not in the catalogue, or a person with more than 1,000,000 entries in these days, 22023. For administrators of the organization; others get 42501.';

create function audit_log_private.read_entry(organization_id uuid, created_at timestamptz, id uuid) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  first_time constant timestamptz := date_trunc('milliseconds', created_at);
  line text;
begin
  perform audit_log_private.require_admin(organization_id);
  select audit_log_private.entry_line(e) into line from audit_log.audit_entries e
  where e.organization_id = read_entry.organization_id
    and e.created_at >= first_time and e.created_at < first_time + interval '1 millisecond'
    and e.id = read_entry.id;
  perform audit_log_private.count_read(organization_id, (line is not null)::integer);
  return line;
end $$;
comment on function audit_log_private.read_entry is 'audit_log.read_entry, with its owner''s rights.';

create function audit_log.read_entry(organization_id uuid, created_at timestamptz, id uuid) returns text
language sql volatile set search_path = pg_catalog, pg_temp
as $$ select audit_log_private.read_entry(organization_id, created_at, id) $$;
comment on function audit_log.read_entry is 'One entry, by what identifies it in answers, as the text of a JSON object; null when there is none. created_at counts to the millisecond. For administrators of the organization; others get 42501.';

create function audit_log_private.daily_entry_counts(
  organization_id uuid, start_date date, end_date date, action text, user_email text, by_hour boolean
) returns json
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  wanted_email constant text := user_email;
  range_start constant timestamptz := start_date::timestamp at time zone 'UTC';
  range_end constant timestamptz := (end_date + 1)::timestamp at time zone 'UTC';
begin
  perform audit_log_private.require_admin(organization_id);
  perform audit_log_private.check_days(start_date, end_date);
  if audit_log_private.count_matching(
    organization_id, (start_date, end_date, action, user_email, null, null, null, null)::audit_log.page_query
  ) is null then
    raise exception 'user_email has more than 1,000,000 entries in these days: ask for fewer days' using errcode = 'invalid_parameter_value';
  end if;
  return (
    select coalesce(json_agg(json_strip_nulls(to_json(t)) order by t.day, t.hour), '[]') from (
      select p.day, case when by_hour then p.hour end as hour, sum(p.entries) as entries from (
        select c.day, u.hour - 1 as hour, u.entries from audit_log_private.entry_counts c
        cross join unnest(case when by_hour then c.hours else array[c.entries] end) with ordinality as u (entries, hour)
        where wanted_email is null and c.organization_id = daily_entry_counts.organization_id
          and c.day between start_date and end_date
          and (daily_entry_counts.action is null or c.action = daily_entry_counts.action)
        union all
        (
          select (e.created_at at time zone 'UTC')::date, extract(hour from e.created_at at time zone 'UTC'), 1
          from audit_log.audit_entries e
          where e.organization_id = daily_entry_counts.organization_id
            and (e.user_email, e.created_at) >= (wanted_email, range_start)
            and (e.user_email, e.created_at) < (wanted_email, range_end)
            and (daily_entry_counts.action is null or e.action = daily_entry_counts.action)
        )
      ) as p
      group by 1, 2 having sum(p.entries) <> 0
    ) as t
  );
end $$;
comment on function audit_log_private.daily_entry_counts is 'audit_log.daily_entry_counts, with its owner''s rights.';

create function audit_log.daily_entry_counts(
  organization_id uuid, start_date date, end_date date, action text default null, user_email text default null,
  by_hour boolean default false
) returns json
language sql stable set search_path = pg_catalog, pg_temp
as $$ select audit_log_private.daily_entry_counts(organization_id, start_date, end_date, action, user_email, by_hour) $$;
comment on function audit_log.daily_entry_counts is 'How many entries each UTC day of a range has, or with by_hour each of its hours, 0 to 23: [{day, hour, entries}], without those that have none. user_email: of this person only; 22023 if the person has more than 1,000,000 in these days. For administrators of the organization; others get 42501.';

create function audit_log_private.list_actions(organization_id uuid) returns json
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform audit_log_private.require_admin(organization_id);
  return audit_log_private.read_actions()::json -> 'items';
end $$;
comment on function audit_log_private.list_actions is 'audit_log.list_actions, with its owner''s rights.';

create function audit_log.list_actions(organization_id uuid) returns json
language sql stable set search_path = pg_catalog, pg_temp
as $$ select audit_log_private.list_actions(organization_id) $$;
comment on function audit_log.list_actions is 'The actions that entries may have: [{code, description, required, deprecated_at}]. For administrators of the organization; others get 42501.';

create function audit_log_private.list_seals(organization_id uuid, query audit_log.page_query) returns json
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  page json;
begin
  perform audit_log_private.require_admin(organization_id);
  page := audit_log_private.at_home(
    organization_id, 'read_resource', 'seals', audit_log_private.checked_query(query)
  )::json ->> 'page';
  return json_build_object(
    'total', page -> 'total', 'altered', page -> 'altered', 'items', page -> 'items',
    'keep_days', (select o.keep_days from audit_log.organizations o where o.id = list_seals.organization_id),
    'holds', audit_log_private.standing_holds(organization_id)
  );
end $$;
comment on function audit_log_private.list_seals is 'audit_log.list_seals, with its owner''s rights.';

create function audit_log.list_seals(organization_id uuid, query audit_log.page_query) returns json
language sql volatile set search_path = pg_catalog, pg_temp
as $$ select audit_log_private.list_seals(organization_id, query) $$;
comment on function audit_log.list_seals is 'A page of an organization''s seals of the days of a query, by sequence: {total, altered, items, keep_days, holds}. altered lists the altered days. keep_days: after how many days entries are deleted; null: never. holds: [{reason, held_by, held_at}], the oldest first; while there is one, nothing is deleted. For administrators of the organization; others get 42501.';

create function audit_log_private.latest_seal_json(organization_id uuid) returns json
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  latest audit_log_private.seals;
begin
  perform audit_log_private.require_admin(organization_id);
  latest := audit_log_private.latest_seal(organization_id);
  return case when latest.sequence is not null then audit_log_private.seal_json(latest) end;
end $$;
comment on function audit_log_private.latest_seal_json is 'audit_log.latest_seal, with its owner''s rights.';

create function audit_log.latest_seal(organization_id uuid) returns json
language sql stable set search_path = pg_catalog, pg_temp
as $$ select audit_log_private.latest_seal_json(organization_id) $$;
comment on function audit_log.latest_seal is 'The end of an organization''s chain of seals: what to keep elsewhere; null when nothing is sealed yet. For administrators of the organization; others get 42501.';
