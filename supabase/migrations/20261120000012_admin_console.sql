-- What administrators and auditors read of their organization in the console: as read_audit_log and so on in audit_log,
-- which the migration `privileges` makes. Their reads are counted like those of keys.

create function audit_log_private.checked_query(query audit_log.page_query) returns audit_log.page_query
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  perform audit_log_private.check_days(query.start_date, query.end_date);
  query.newest_first := coalesce(query.newest_first, true);
  query := audit_log_private.with_defaults(query);
  if query.since >= query.until or query.page_limit not between 1 and 1000 or query.page_offset < 0 then
    raise exception 'since must be before until, both within start_date and end_date, page_limit from 1 to 1000, and page_offset not below 0' using errcode = 'invalid_parameter_value';
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
      raise exception 'there is no such action in the catalogue (list_actions has those that are), or one is given twice, or more than 20 are given' using errcode = 'invalid_parameter_value';
    when 'invalid_cursor' then
      raise exception 'after is not a cursor of this organization for the same times and filters, or one from before a restore: start again with after=beginning' using errcode = 'AL003';
    when 'too_many' then
      raise exception 'user_email has more than 1,000,000 entries in this time: ask for a shorter one' using errcode = 'AL004';
  end case;
end $$;
comment on function audit_log_private.require_accepted is 'Raises what a person is told when a reading was not accepted.';

create function audit_log_private.read_audit_log(organization_id uuid, query audit_log.page_query) returns json
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  read audit_log_private.reading;
begin
  perform audit_log_private.require_access(organization_id, for_admins => false);
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
comment on function audit_log_private.read_audit_log is 'A page of an organization''s log: {total, items, cursor, has_more}. The query needs start_date and end_date; without page_limit the page has up to 100 entries, at most 1000; without newest_first, the newest come first. items is the text of a JSON array. With after, items are the entries that the cursor has not seen, cursor is where to go on, and has_more says whether it leads to more now. Without after, cursor and has_more are null. A wrong cursor is AL003; a person with more than 1,000,000 entries in this time AL004; a query without days, with an unlawful page_limit or page_offset, or with actions that are not in the catalogue, 22023. For administrators and auditors of the organization; others get 42501.';

create function audit_log_private.read_entry(organization_id uuid, created_at timestamptz, id uuid) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  line text;
begin
  perform audit_log_private.require_access(organization_id, for_admins => false);
  select audit_log_private.entry_line(e) into line from audit_log.audit_entries e
  where e.organization_id = read_entry.organization_id
    and e.created_at = date_trunc('milliseconds', read_entry.created_at) and e.id = read_entry.id;
  perform audit_log_private.count_read(organization_id, (line is not null)::integer);
  return line;
end $$;
comment on function audit_log_private.read_entry is 'One entry, by what identifies it in answers, as the text of a JSON object; null when there is none. created_at counts to the millisecond. For administrators and auditors of the organization; others get 42501.';

create function audit_log_private.find_persons(organization_id uuid, prefix text) returns json
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set plan_cache_mode = 'force_generic_plan' set jit = off as $$
declare
  wanted constant text := lower(prefix collate "C");
  person text := wanted;
  persons text[] := array[]::text[];
begin
  perform audit_log_private.require_access(organization_id, for_admins => false);
  -- Each step is a seek in the index to the next person, however many entries each has.
  while cardinality(persons) < 10 loop
    select lower(e.user_email) into person from audit_log.audit_entries e
    where e.organization_id = find_persons.organization_id and lower(e.user_email) >= person
    order by lower(e.user_email) limit 1;
    exit when not found or not starts_with(person, wanted);
    persons := persons || person;
    -- The least text that is greater.
    person := person || U&'\0001';
  end loop;
  perform audit_log_private.count_read(organization_id, 0);
  return to_json(persons);
end $$;
comment on function audit_log_private.find_persons is 'The first ten persons in the log whose address begins with a prefix, in small letters and their order: [text]. Counts as a read. For administrators and auditors of the organization; others get 42501.';

create function audit_log_private.daily_entry_counts(organization_id uuid, query audit_log.page_query, by_hour boolean default false) returns json
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  read audit_log_private.reading;
  first_hour timestamp;
  last_hour timestamp;
begin
  perform audit_log_private.require_access(organization_id, for_admins => false);
  query := audit_log_private.checked_query(query);
  first_hour := date_trunc('hour', query.since at time zone 'UTC');
  read := audit_log_private.count_matching(organization_id, query);
  perform audit_log_private.require_accepted(read.decision);
  -- The counts have whole hours. The first one loses what lies before since, and of the last one only counts what lies
  -- before until.
  last_hour := date_trunc('hour', query.until at time zone 'UTC');
  return json_build_object('total', read.total, 'items', (
    select coalesce(json_agg(json_strip_nulls(to_json(t)) order by t.day, t.hour), '[]') from (
      select p.hour::date as day, case when by_hour then extract(hour from p.hour) end as hour, sum(p.entries) as entries from (
        select c.day + (u.hour - 1) * interval '1 hour' as hour, u.entries from audit_log_private.entry_counts c
        cross join unnest(
          case when by_hour or c.day in (first_hour::date, last_hour::date) then c.hours else array[c.entries] end
        ) with ordinality as u (entries, hour)
        where query.user_email is null and c.organization_id = daily_entry_counts.organization_id
          and c.day between first_hour::date and last_hour::date
          and c.day + (u.hour - 1) * interval '1 hour' >= first_hour and c.day + (u.hour - 1) * interval '1 hour' < last_hour
          and (query.actions is null or c.action = any (query.actions))
        union all
        select first_hour, -read.earlier_in_hour where read.earlier_in_hour > 0
        union all
        select last_hour, b.in_hour from audit_log_private.count_before(organization_id, query.actions, query.until) as b
        where query.user_email is null
        union all
        (
          select e.created_at at time zone 'UTC', 1
          from audit_log.audit_entries e
          where e.organization_id = daily_entry_counts.organization_id and lower(e.user_email) = query.user_email
            -- As in read_page.
            and (e.created_at, e.id) >= (query.since, '00000000-0000-0000-0000-000000000000') and e.created_at < query.until
            and (query.actions is null or e.action = any (query.actions))
        )
      ) as p
      group by 1, 2 having sum(p.entries) <> 0
    ) as t
  ));
end $$;
comment on function audit_log_private.daily_entry_counts is 'How many entries match a query, in all and on each UTC day, or with by_hour in each hour, 0 to 23: {total, items: [{day, hour, entries}]}, without days and hours that have none. Of the query, the days, since, until, actions and user_email count; it is refused as in read_audit_log. For administrators and auditors of the organization; others get 42501.';

create function audit_log_private.list_actions(organization_id uuid) returns json
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform audit_log_private.require_access(organization_id, for_admins => false);
  return (audit_log_private.read_actions()).items::json;
end $$;
comment on function audit_log_private.list_actions is 'The actions that entries may have: [{code, description, required, deprecated_at}]. For administrators and auditors of the organization; others get 42501.';

create function audit_log_private.list_seals(organization_id uuid, query audit_log.page_query) returns json
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  read audit_log_private.reading;
begin
  perform audit_log_private.require_access(organization_id, for_admins => false);
  read := audit_log_private.read_seals(organization_id, audit_log_private.checked_query(query));
  return json_build_object(
    'total', read.total, 'altered', read.altered, 'items', read.items::json,
    'keep_days', (select o.keep_days from audit_log.organizations o where o.id = list_seals.organization_id),
    'holds', audit_log_private.standing_holds(organization_id)
  );
end $$;
comment on function audit_log_private.list_seals is 'A page of an organization''s seals of the days of a query, by sequence: {total, altered, items, keep_days, holds}. altered lists the altered days. keep_days: after how many days entries are deleted; null: never. holds: [{reason, held_by, held_at}], the oldest first; while there is one, nothing is deleted. For administrators and auditors of the organization; others get 42501.';

create function audit_log_private.latest_seal(organization_id uuid) returns json
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  latest audit_log_private.seals;
begin
  perform audit_log_private.require_access(organization_id, for_admins => false);
  latest := audit_log_private.chain_end(organization_id);
  return case when latest.sequence is not null then audit_log_private.seal_json(latest) end;
end $$;
comment on function audit_log_private.latest_seal is 'The end of an organization''s chain of seals: what to keep elsewhere; null when nothing is sealed yet. For administrators and auditors of the organization; others get 42501.';
