-- Entries in the order of time: for pages, for the places where they begin, and for the feed's first batch.

create type audit_log_private.place as (created_at timestamptz, id uuid);
comment on type audit_log_private.place is
  'A place in the order of time: right after the entry with this time and id, whether there is one or not.';

-- Without settings and as an expression, so that Postgres inlines it.
create function audit_log_private.place_before(moment timestamptz) returns audit_log_private.place
language sql stable
return (moment - interval '1 microsecond', 'ffffffff-ffff-ffff-ffff-ffffffffffff')::audit_log_private.place;
comment on function audit_log_private.place_before is 'The place before all entries of a moment.';

-- A branch for each index, of which only one reads, in the order of that index. (A row comparison that begins with an
-- equal column, such as (action, created_at) > (…), would not begin or end the scan at the place.)
--
-- Inlined. If only created_at and id are used, Postgres leaves out the joins and reads the index alone.
create function audit_log_private.scan(
  organization_id uuid, actions text[], person text, place audit_log_private.place, until timestamptz,
  skip bigint, most bigint
)
returns setof audit_log.audit_entries
language sql stable
begin atomic
  (
    select e.* from audit_log.audit_entries e
    where actions is null and person is null and e.organization_id = scan.organization_id
      and (e.created_at, e.id) > ((place).created_at, (place).id) and e.created_at < until
    order by e.created_at, e.id limit most offset skip
  )
  union all
  (
    select e.* from audit_log.audit_entries e
    where cardinality(actions) = 1 and person is null and e.organization_id = scan.organization_id
      and e.action = actions[1] and (e.created_at, e.id) > ((place).created_at, (place).id) and e.created_at < until
    order by e.created_at, e.id limit most offset skip
  )
  union all
  (
    -- Each action is read in its own order, within the index.
    select
      found.id, scan.organization_id, found.created_at,
      e.action, e.user_email, e.agent_name, e.data, e.transaction_id
    from (
      select one.created_at, one.id
      from unnest(actions) as wanted (action)
      cross join lateral (
        select e.created_at, e.id from audit_log.audit_entries e
        where cardinality(actions) > 1 and person is null and e.organization_id = scan.organization_id
          and e.action = wanted.action and (e.created_at, e.id) > ((place).created_at, (place).id)
          and e.created_at < until
        order by e.created_at, e.id limit skip + most
      ) as one
      order by one.created_at, one.id limit most offset skip
    ) as found
    left join audit_log.audit_entries e
      on e.organization_id = scan.organization_id and e.created_at = found.created_at and e.id = found.id
    order by found.created_at, found.id
  )
  union all
  (
    -- Other actions of the person are passed over within the index.
    select
      found.id, scan.organization_id, found.created_at,
      e.action, e.user_email, e.agent_name, e.data, e.transaction_id
    from (
      select e.created_at, e.id from audit_log.audit_entries e
      where person is not null and e.organization_id = scan.organization_id and lower(e.user_email) = person
        and (e.created_at, e.id) > ((place).created_at, (place).id) and e.created_at < until
        and (actions is null or e.action = any (actions))
      order by e.created_at, e.id limit most offset skip
    ) as found
    left join audit_log.audit_entries e
      on e.organization_id = scan.organization_id and e.created_at = found.created_at and e.id = found.id
    order by found.created_at, found.id
  );
end;
comment on function audit_log_private.scan is
  'The entries after a place and before a time, with these actions and of this person (null: all), in the order of '
  'time: without the first ones, at most so many. For rows, call it without hash and merge joins.';

-- The filters that only a row can answer: no index and no counts know them. Postgres inlines both functions.
create function audit_log_private.searches(query audit_log.page_query) returns boolean
language sql immutable
return (query).object is not null;
comment on function audit_log_private.searches is 'Whether a query has a filter that only a row can answer.';

create function audit_log_private.is_found(entry audit_log.audit_entries, query audit_log.page_query) returns boolean
language sql stable
return (query).object is null
  or jsonb_path_query_array((entry).data, '$.*') @> jsonb_build_array((query).object);
comment on function audit_log_private.is_found is 'Whether an entry has what the query searches.';
