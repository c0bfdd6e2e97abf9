-- What administrators read of their organization in the console. Their reads are counted like those of keys.

create function audit_log_private.checked_query(query audit_log.page_query) returns audit_log.page_query
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  perform audit_log_private.check_days(query.start_date, query.end_date);
  query.newest_first := coalesce(query.newest_first, true);
  query := audit_log_private.with_defaults(query);
  if query.page_limit not between 1 and 1000 or query.page_offset < 0 then
    raise exception 'page_limit must be from 1 to 1000, and page_offset not below 0' using errcode = 'invalid_parameter_value';
  end if;
  return (query);
end $$;
comment on function audit_log_private.checked_query is 'A query of a person with its defaults: 100 entries, newest first. Raises 22023 if it is not lawful.';

create function audit_log_private.require_accepted(decision text) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  case decision
    when 'accepted' then null;
    when 'invalid_query' then
      raise exception 'there is no such action in the catalogue: list_actions has those that are' using errcode = 'invalid_parameter_value';
    when 'invalid_cursor' then
      raise exception 'after is not a cursor of this organization for the same days and filters, or one from before a restore: start again with after=beginning' using errcode = 'AL003';
    when 'too_many' then
      raise exception 'user_email has more than 1,000,000 entries in these days: ask for fewer days' using errcode = 'AL004';
  end case;
end $$;
comment on function audit_log_private.require_accepted is 'Raises what a person is told when a reading was not accepted.';

create function audit_log_private.read_audit_log(organization_id uuid, query audit_log.page_query) returns json
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  read audit_log_private.reading;
begin
  perform audit_log_private.require_admin(organization_id);
  query := audit_log_private.checked_query(query);
  if query.after is null then
    read := audit_log_private.read_page(organization_id, query);
  else
    perform set_config('synchronous_commit', 'on', true); -- As in answer_request.
    read := audit_log_private.read_feed(organization_id, query);
  end if;
  perform audit_log_private.require_accepted(read.decision);
  perform audit_log_private.count_read(organization_id, read.entries);
  -- Items as text, because a client's parser would round long numbers in data.
  return json_build_object('total', read.total, 'items', read.items, 'cursor', read.cursor, 'has_more', read.has_more);
end $$;
comment on function audit_log_private.read_audit_log is 'audit_log.read_audit_log, with its owner''s rights.';

create function audit_log.read_audit_log(organization_id uuid, query audit_log.page_query) returns json
language sql volatile set search_path = pg_catalog, pg_temp
as $$ select audit_log_private.read_audit_log(organization_id, query) $$;
comment on function audit_log.read_audit_log is 'A page of an organization''s log: {total, items, cursor, has_more}. The query needs start_date and end_date; without page_limit the page has up to 100 entries, at most 1000; without newest_first, the newest come first. items is the text of a JSON array. With after, items are the entries that the cursor has not seen, cursor is where to go on, and has_more says whether it leads to more now. Without after, cursor and has_more are null. A wrong cursor is AL003; a person with more than 1,000,000 entries in these days AL004; a query without days, with an unlawful page_limit or page_offset, or an action that is not in the catalogue, 22023. For administrators of the organization; others get 42501.';

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

create function audit_log_private.daily_entry_counts(organization_id uuid, query audit_log.page_query, by_hour boolean) returns json
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  read audit_log_private.reading;
begin
  perform audit_log_private.require_admin(organization_id);
  query := audit_log_private.checked_query(query);
  read := audit_log_private.count_matching(organization_id, query);
  perform audit_log_private.require_accepted(read.decision);
  return json_build_object('total', read.total, 'items', (
    select coalesce(json_agg(json_strip_nulls(to_json(t)) order by t.day, t.hour), '[]') from (
      select p.day, case when by_hour then p.hour end as hour, sum(p.entries) as entries from (
        select c.day, u.hour - 1 as hour, u.entries from audit_log_private.entry_counts c
        cross join unnest(case when by_hour then c.hours else array[c.entries] end) with ordinality as u (entries, hour)
        where query.user_email is null and c.organization_id = daily_entry_counts.organization_id
          and c.day between query.start_date and query.end_date
          and (query.action is null or c.action = query.action)
        union all
        (
          select (e.created_at at time zone 'UTC')::date, extract(hour from e.created_at at time zone 'UTC'), 1
          from audit_log.audit_entries e
          where e.organization_id = daily_entry_counts.organization_id and e.user_email = query.user_email
            and e.created_at >= query.start_date::timestamp at time zone 'UTC'
            and e.created_at < (query.end_date + 1)::timestamp at time zone 'UTC'
            and (query.action is null or e.action = query.action)
        )
      ) as p
      group by 1, 2 having sum(p.entries) <> 0
    ) as t
  ));
end $$;
comment on function audit_log_private.daily_entry_counts is 'audit_log.daily_entry_counts, with its owner''s rights.';

create function audit_log.daily_entry_counts(organization_id uuid, query audit_log.page_query, by_hour boolean default false) returns json
language sql stable set search_path = pg_catalog, pg_temp
as $$ select audit_log_private.daily_entry_counts(organization_id, query, by_hour) $$;
comment on function audit_log.daily_entry_counts is 'How many entries match a query, in all and on each UTC day, or with by_hour in each hour, 0 to 23: {total, items: [{day, hour, entries}]}, without days and hours that have none. Of the query, the days, the action and user_email count; it is refused as in read_audit_log. For administrators of the organization; others get 42501.';

create function audit_log_private.list_actions(organization_id uuid) returns json
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform audit_log_private.require_admin(organization_id);
  return (audit_log_private.read_actions()).items;
end $$;
comment on function audit_log_private.list_actions is 'audit_log.list_actions, with its owner''s rights.';

create function audit_log.list_actions(organization_id uuid) returns json
language sql stable set search_path = pg_catalog, pg_temp
as $$ select audit_log_private.list_actions(organization_id) $$;
comment on function audit_log.list_actions is 'The actions that entries may have: [{code, description, required, deprecated_at}]. For administrators of the organization; others get 42501.';

create function audit_log_private.list_seals(organization_id uuid, query audit_log.page_query) returns json
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  read audit_log_private.reading;
begin
  perform audit_log_private.require_admin(organization_id);
  read := audit_log_private.read_seals(organization_id, audit_log_private.checked_query(query));
  return json_build_object(
    'total', read.total, 'altered', read.altered, 'items', read.items::json,
    'keep_days', (select o.keep_days from audit_log.organizations o where o.id = list_seals.organization_id),
    'holds', audit_log_private.standing_holds(organization_id)
  );
end $$;
comment on function audit_log_private.list_seals is 'audit_log.list_seals, with its owner''s rights.';

create function audit_log.list_seals(organization_id uuid, query audit_log.page_query) returns json
language sql stable set search_path = pg_catalog, pg_temp
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
