-- What administrators and auditors read of their organization. Their reads are counted like those of keys.

create function audit_log_private.list_organizations() returns json
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  is_valid constant boolean := audit_log_private.is_valid_session() is true;
begin
  perform audit_log_private.refuse_conditions();
  return (
    select coalesce(json_agg(
      json_build_object(
        'id', audit_log.organization_uuid(m.id), 'organization_id', coalesce(o.platform_id, m.id),
        'name', audit_log_private.name_or_unnamed(m.name), 'role', m.role,
        'is_admin', is_valid and audit_log_private.role_may(m.role, for_admins => true),
        'may_read', is_valid and audit_log_private.role_may(m.role, for_admins => false)
      )
      order by audit_log_private.name_or_unnamed(m.name), m.id
    ), '[]')
    from audit_log_private.my_organizations() m
    left join audit_log.organizations o on o.id = audit_log.organization_uuid(m.id)
    where (audit_log_private.caller()).id is not null and m.id is not null
      and (o.id is null or o.closed_at is null and o.platform_id in (m.id, lower(m.id)))
  );
end $$;
comment on function audit_log_private.list_organizations is
  'The organizations of the signed-in person (docs/keys.md). is_admin and may_read are false without a second '
  'factor, if there is one.';

create function audit_log_private.read_audit_log(organization_id uuid, query json) returns json
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  read audit_log_private.reading;
begin
  perform audit_log_private.require_access(organization_id, for_admins => false);
  read := audit_log_private.read_resource(organization_id, 'entries', audit_log_private.checked_query(query));
  perform audit_log_private.require_accepted(read.decision);
  perform audit_log_private.count_read(organization_id, read.entries);
  -- Items as text, because a client's parser would round long numbers in data.
  return json_build_object('total', read.total, 'items', read.items, 'cursor', read.cursor, 'has_more', read.has_more);
end $$;
comment on function audit_log_private.read_audit_log is
  'A page of an organization''s log, or with after of the feed: {total, items, cursor, has_more}. items is the text '
  'of a JSON array (docs/keys.md). For administrators and auditors.';

create function audit_log_private.read_entry(organization_id uuid, created_at text, id uuid) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  line text;
begin
  perform audit_log_private.require_access(organization_id, for_admins => false);
  line := audit_log_private.line_of(
    organization_id, date_trunc('milliseconds', audit_log_private.utc_time(created_at)), id
  );
  perform audit_log_private.count_read(organization_id, (line is not null)::integer);
  return line;
end $$;
comment on function audit_log_private.read_entry is
  'One entry as JSON text; null if there is none. For administrators and auditors.';

create function audit_log_private.find_persons(organization_id uuid, prefix text) returns json
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
  set plan_cache_mode = 'force_generic_plan' set jit = off as $$
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
    person := person || chr(1);
  end loop;
  perform audit_log_private.count_read(organization_id, 0);
  return to_json(persons);
end $$;
comment on function audit_log_private.find_persons is
  'The first ten persons in the log whose address begins with a prefix. For administrators and auditors.';

create function audit_log_private.count_days(organization_id uuid, query audit_log.page_query) returns json
-- Stable: total and items belong to the same moment.
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  has_counts constant boolean := query.user_email is null and not audit_log_private.searches(query);
  matching audit_log_private.matching;
  first_hour timestamp;
  last_hour timestamp;
begin
  query.after := null;
  matching := audit_log_private.count_matching(organization_id, query);
  perform audit_log_private.require_accepted(matching.decision);
  -- The counts have whole hours: the first one loses what lies before since, the last one what does not precede until.
  first_hour := date_trunc('hour', query.since at time zone 'UTC');
  last_hour := date_trunc('hour', query.until at time zone 'UTC');
  return json_build_object('total', matching.total, 'items', (
    select coalesce(json_agg(json_strip_nulls(to_json(t)) order by t.day), '[]') from (
      select p.hour::date as day, sum(p.entries) as entries
      from (
        select h.hour, h.entries from audit_log_private.entry_counts c
        cross join lateral (
          select c.day + (u.hour - 1) * interval '1 hour' as hour, u.entries
          from unnest(
            case when c.day in (first_hour::date, last_hour::date) then c.hours else array[c.entries] end
          ) with ordinality as u (entries, hour)
        ) as h
        where has_counts and c.organization_id = count_days.organization_id
          and c.day between first_hour::date and last_hour::date and h.hour >= first_hour and h.hour < last_hour
          and (query.actions is null or c.action = any (query.actions))
        union all
        select first_hour, -matching.earlier_in_its_hour where matching.earlier_in_its_hour > 0
        union all
        select last_hour, b.in_its_hour
        from audit_log_private.count_before(organization_id, query.actions, query.until) as b
        where has_counts
        union all
        select p.created_at at time zone 'UTC', 1 from unnest(matching.places) as p
        union all
        select e.created_at at time zone 'UTC', 1
        from audit_log.audit_entries e
        where e.organization_id = count_days.organization_id and lower(e.user_email) = query.user_email
          and not audit_log_private.searches(query)
          -- As in count_matching.
          and (e.created_at, e.id) >= (query.since, '00000000-0000-0000-0000-000000000000')
          and e.created_at < query.until
          and (query.actions is null or e.action = any (query.actions))
      ) as p
      group by 1 having sum(p.entries) <> 0
    ) as t
  ));
end $$;
comment on function audit_log_private.count_days is
  'How many entries match a query, as audit_log.daily_entry_counts returns them. query: as checked_query gives it.';

create function audit_log_private.daily_entry_counts(organization_id uuid, query json) returns json
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  counts json;
begin
  perform audit_log_private.require_access(organization_id, for_admins => false);
  counts := audit_log_private.count_days(organization_id, audit_log_private.checked_query(query));
  -- Counts between two milliseconds tell what a page would.
  perform audit_log_private.count_read(organization_id, 0);
  return counts;
end $$;
comment on function audit_log_private.daily_entry_counts is
  'How many entries match a query, in all and on each UTC day. For administrators and auditors.';

create function audit_log_private.list_actions(organization_id uuid) returns json
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform audit_log_private.require_access(organization_id, for_admins => false);
  return (audit_log_private.read_actions()).items::json;
end $$;
comment on function audit_log_private.list_actions is 'The actions of entries, for administrators and auditors.';

create function audit_log_private.list_seals(organization_id uuid, query json) returns json
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  read audit_log_private.reading;
begin
  perform audit_log_private.require_access(organization_id, for_admins => false);
  read := audit_log_private.read_seals(organization_id, audit_log_private.checked_query(query));
  return (
    select json_build_object(
      'total', read.total, 'altered', read.altered, 'items', read.items::json, 'altered_at', days.altered_at,
      'sealed_after', days.sealed_after, 'keep_days', o.keep_days, 'hold_reason', o.hold_reason,
      'days', days.sealed, 'latest', (
        select audit_log_private.seal_json(s) from audit_log_private.chain_end(list_seals.organization_id) as s
        where s.sequence is not null
      )
    )
    from (
      select count(*) as sealed,
        json_object_agg(d.day, audit_log_private.api_time(d.altered_at))
          filter (where d.altered_at is not null) as altered_at,
        json_object_agg(d.day, d.sealed_after) filter (where d.sealed_after is not null) as sealed_after
      from audit_log_private.sealed_days d where d.organization_id = list_seals.organization_id
    ) as days
    left join audit_log.organizations o on o.id = list_seals.organization_id
  );
end $$;
comment on function audit_log_private.list_seals is
  'A page of the seals of a query''s days. `latest` is the end of the chain; `sealed_after`, for a day that was empty '
  'then, the later day that was sealed before it. For administrators and auditors.';

select audit_log_private.serve(name)
from unnest(
  '{list_organizations,read_audit_log,read_entry,find_persons,daily_entry_counts,list_actions,list_seals}'::text[]
) as name;
