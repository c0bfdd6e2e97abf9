-- How many entries are written in one call, how all are checked and counted, and how the catalogue may change.

-- For a platform outside the database. Unlike a plain insert, the call may be repeated when its answer was lost.
create function audit_log.record_entries(entries jsonb) returns integer
-- With its owner's rights: it adds organizations, and caller may read tables of the platform.
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp set timezone = 'UTC' set datestyle = 'ISO, MDY' as $$
declare
  fields constant text[] := '{id,organization,created_at,action,user_email,agent_name,data,target,target_name}'::text[];
  organizations jsonb;
  -- Null unless the secret key says for whom it writes.
  person text;
  caller jsonb;
  written integer;
begin
  -- A misspelt field would be lost silently.
  perform from jsonb_array_elements(entries) as e (entry)
  where e.entry - fields <> '{}';
  if found or entries is null then
    raise exception 'entries is an array of objects with the fields %', array_to_string(fields, ', ')
      using errcode = 'invalid_parameter_value';
  end if;
  -- Each once, and in one order, so that two calls that add the same ones cannot deadlock.
  select jsonb_object_agg(e.organization, audit_log_private.ensure_organization(e.organization)) into organizations
  from (
    select distinct r.organization from jsonb_to_recordset(entries) as r (organization text)
    where r.organization is not null order by 1
  ) as e;
  select r.email, r.data into person, caller from audit_log_private.request_context() as r
  where r.data #> '{caller,on_behalf_of}' is not null;
  insert into audit_log.audit_entries (id, organization_id, created_at, action, user_email, agent_name, data)
  select
    coalesce(e.id, audit_log_private.new_entry_id()),
    (organizations ->> e.organization)::uuid,
    -- A repeat is known by id and time: who gives the one must give the other.
    coalesce(e.created_at, case when e.id is null then date_trunc('milliseconds', clock_timestamp()) end),
    e.action, coalesce(e.user_email, person), e.agent_name,
    case
      -- The platform's own caller wins. Where there is no room for it, the entry is worth more.
      when e.user_email is null and octet_length((caller || d.data)::text) <= 4096 then caller || d.data
      else d.data
    end
  from rows from (
    jsonb_to_recordset(entries) as (
      id uuid, organization text, created_at timestamptz(3), action text, user_email text, agent_name text, data jsonb,
      target text, target_name text
    )
  ) with ordinality as e (
    id, organization, created_at, action, user_email, agent_name, data, target, target_name, n
  )
  left join audit_log.actions a on a.code = e.action
  cross join lateral (
    -- Where the catalogue names no field, the value is kept in one of this name.
    select coalesce(e.data, '{}') || jsonb_strip_nulls(jsonb_build_object(
      coalesce(a.target_name, 'target_name'), e.target_name,
      coalesce(a.target, a.required[1], 'target'), e.target
    ))
  ) as d (data)
  -- In one order, so that two calls with the same entries cannot deadlock.
  order by 2, e.created_at, e.id, e.n
  on conflict (organization_id, created_at, id) do nothing;
  get diagnostics written = row_count;
  return written;
end $$;
comment on function audit_log.record_entries is
  'Writes entries, all or none: docs/logging.md has their fields. May be repeated: skips entries that are there. '
  'Returns how many it wrote. For service_role only.';

-- For check_and_count_entries. Postgres would plan check constraints of the table anew in every statement.
create function audit_log_private.broken_rule(
  created_at timestamptz, user_email text, agent_name text, data jsonb, required_path jsonpath
) returns text
language sql immutable
return case
  when required_path is null then 'action_is_in_catalogue'
  -- So that the API, which takes the dates 0001-01-01 to 9999-12-31, reaches every entry.
  when created_at < '0001-01-01 00:00:00+00' or created_at >= '10000-01-01 00:00:00+00'
    then 'created_at_within_api_dates'
  -- A loose check: a log that refuses an unusual address loses an entry.
  when user_email not like '%_@_%' then 'user_email_is_address'
  -- The three sizes keep a page of 1000 entries below 7.5 MB: the Edge Function has little memory.
  when pg_catalog.char_length(user_email) > 320 then 'user_email_is_short'
  when pg_catalog.char_length(agent_name) > 200 then 'agent_name_is_short'
  when pg_catalog.octet_length(data::text) > 4096 then 'data_is_small'
  when pg_catalog.jsonb_typeof(data) <> 'object' then 'data_is_object'
  -- Common JSON parsers refuse a whole page in which one value is nested too deeply.
  when data @? 'strict $.**{33}' then 'data_is_shallow'
  -- Null: a field is missing or no string.
  when (data @@ required_path) is not true then 'data_has_required'
end;
comment on function audit_log_private.broken_rule is
  'The first rule that an entry breaks, or null. required_path: of its action; null if the catalogue lacks that.';

create function audit_log_private.require_writable(
  organization_id uuid, action text, broken_rule text, broken audit_log.audit_entries
) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  which constant text :=
    format('The entry has the id %s and the time %s', broken.id, audit_log_private.api_time(broken.created_at));
  organization audit_log.organizations;
begin
  if broken_rule = 'action_is_in_catalogue' then
    raise exception 'an entry has the action "%", which is not in the table audit_log.actions', action
      using errcode = 'foreign_key_violation', constraint = broken_rule, detail = which;
  elsif broken_rule is not null then
    raise exception 'an entry breaks the rule %', concat(broken_rule, (
      select ': ' || array_to_string(a.required, ', ') from audit_log.actions a
      where a.code = action and broken_rule = 'data_has_required'
    ))
      using errcode = 'check_violation', constraint = broken_rule, detail = which;
  end if;
  -- Until the commit, so that an organization is not closed in between.
  select o.* into organization from audit_log.organizations o where o.id = organization_id for key share;
  if not found and substr(organization_id::text, 15, 1) = '5' then
    raise exception 'an entry has the organization %, which the log does not know: a UUID of version 5 may be made '
      'from another id, so add it by that id (ensure_organization)', organization_id
      using errcode = 'foreign_key_violation';
  elsif not found then
    perform audit_log_private.ensure_organization(organization_id::text);
  elsif organization.closed_at is not null then
    raise exception 'an entry has the organization %, which is closed (close_organization)', organization.platform_id
      using errcode = 'foreign_key_violation';
  end if;
end $$;
comment on function audit_log_private.require_writable is
  'Raises 23514 or 23503 for an entry that breaks a rule, or a closed organization. Adds one that is new.';

-- Without settings, so that Postgres inlines it. Whoever changes this setting of a session only makes another part.
create function audit_log_private.current_part() returns integer
language sql stable
return coalesce(
  substring(pg_catalog.current_setting('audit_log_private.part', true) from '^[0-9]{1,9}$')::integer, 0
);
comment on function audit_log_private.current_part is 'The part of the counts that this transaction counts in.';

create function audit_log_private.add_entry_count(
  organization_id uuid, hour timestamp, action text, entries integer, required_path jsonpath
) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  hour_of_day constant integer := extract(hour from hour) + 1;
  current_part integer := audit_log_private.current_part();
begin
  if entries > 0 and current_setting('transaction_isolation') <> 'read committed' then
    -- Its snapshot may be older than a change of the action. Then this raises a serialization failure.
    perform from audit_log.actions a where a.code = add_entry_count.action for share;
  end if;
  loop
    -- No other backend counts in rows with this process id. "on conflict" always finds them.
    insert into audit_log_private.entry_counts as c (
      organization_id, day, action, writer_pid, part, entries, hours, updates, updated_in, required_path
    )
    values (
      organization_id, hour::date, action, pg_backend_pid(), current_part, entries,
      array_fill(0, array[hour_of_day - 1]) || entries || array_fill(0, array[24 - hour_of_day]),
      1, pg_current_xact_id(), required_path
    )
    on conflict on constraint entry_counts_pkey do update
    set entries = c.entries + excluded.entries,
      hours[hour_of_day] = c.hours[hour_of_day] + excluded.entries,
      updates = case when c.updates < 64 then c.updates + 1 else 1 end,
      updated_in = case when c.updates < 64 then c.updated_in else excluded.updated_in end,
      required_path = excluded.required_path
    where c.updates < 64 or c.updated_in <> excluded.updated_in;
    exit when found;
    current_part := current_part + 1;
    perform set_config('audit_log_private.part', current_part::text, true);
  end loop;
end $$;
comment on function audit_log_private.add_entry_count is 'Adds to the counts of an hour in rows of this backend.';

create function audit_log_private.check_and_count_entries() returns trigger
-- enable_seqscan: plans are made while tables are small, and kept.
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
  entry audit_log.audit_entries;
  -- Entries of one organization, action and hour.
  alike record;
  codes text[];
  required_paths jsonpath[];
  this_transaction constant xid8 := pg_current_xact_id();
  current_part constant integer := audit_log_private.current_part();
begin
  if tg_op = 'INSERT' then
    -- Nearly always one entry, of a day and an action that this backend has counted before. If the action was
    -- changed, or the organization closed, required_path is null, which breaks a rule: then all is looked up below.
    begin
      select c.* into strict entry from changed c;
    exception when no_data_found or too_many_rows then null;
    end;
    update audit_log_private.entry_counts c
    set entries = c.entries + 1,
      hours[date_part('hour', entry.created_at at time zone interval '0')::integer + 1] =
        c.hours[date_part('hour', entry.created_at at time zone interval '0')::integer + 1] + 1,
      updates = case when c.updates < 64 then c.updates + 1 else 1 end,
      updated_in = case when c.updates < 64 then c.updated_in else this_transaction end
    where c.organization_id = entry.organization_id and c.day = (entry.created_at at time zone interval '0')::date
      and c.action = entry.action and c.writer_pid = pg_backend_pid() and c.part = current_part
      and (c.updates < 64 or c.updated_in <> this_transaction)
      and audit_log_private.broken_rule(
        entry.created_at, entry.user_email, entry.agent_name, entry.data, c.required_path
      ) is null;
    if found then
      return null;
    end if;
  end if;
  -- The catalogue is small, and needed twice: to check the entries and for new rows of counts.
  select array_agg(a.code), array_agg(a.required_path) into codes, required_paths from audit_log.actions a;
  for alike in
    select
      e.organization_id, e.action, date_trunc('hour', e.created_at at time zone interval '0') as hour,
      count(*)::integer as entries,
      min(case when tg_op = 'INSERT' then
        audit_log_private.broken_rule(e.created_at, e.user_email, e.agent_name, e.data, a.required_path)
      end) as broken_rule
    from changed e left join unnest(codes, required_paths) as a (code, required_path) on a.code = e.action
    group by 1, 2, 3 order by 1 -- So that two that add the same organizations cannot deadlock.
  loop
    if tg_op = 'INSERT' then
      if alike.broken_rule is not null then
        select e.* into entry from changed e
        where e.organization_id = alike.organization_id and e.action = alike.action
          and audit_log_private.broken_rule(
            e.created_at, e.user_email, e.agent_name, e.data, required_paths[array_position(codes, e.action)]
          ) = alike.broken_rule
        limit 1;
      end if;
      perform audit_log_private.require_writable(alike.organization_id, alike.action, alike.broken_rule, entry);
    end if;
    perform audit_log_private.add_entry_count(
      alike.organization_id, alike.hour, alike.action,
      case when tg_op = 'INSERT' then alike.entries else -alike.entries end,
      case when tg_op = 'INSERT' then required_paths[array_position(codes, alike.action)] end
    );
  end loop;
  return null;
end $$;
comment on function audit_log_private.check_and_count_entries is 'Refuses bad entries, and counts the others.';

create trigger check_and_count_inserted
  after insert on audit_log.audit_entries referencing new table as changed
  for each statement execute function audit_log_private.check_and_count_entries();

create trigger count_deleted
  after delete on audit_log.audit_entries referencing old table as changed
  for each statement execute function audit_log_private.check_and_count_entries();

create function audit_log_private.change_action() returns trigger
-- lock_timeout: new writers wait behind it.
language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '2s' as $$
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'an action can only be changed or deleted in read committed'
      using errcode = 'invalid_transaction_state';
  end if;
  -- First the upkeep's lock, so that neither can wait for the other at its next step.
  perform pg_advisory_xact_lock('audit_log_private.entry_counts'::regclass::oid::bigint);
  -- Waits for writers, who may be using it.
  lock table audit_log.audit_entries in share row exclusive mode;
  if tg_op = 'DELETE' or new.code <> old.code then
    perform from audit_log_private.entry_counts c where c.action = old.code;
    if found then
      raise exception 'entries have or had the action %: it cannot be renamed or deleted, only deprecated', old.code
        using errcode = 'foreign_key_violation';
    end if;
  end if;
  -- Makes writers read the action's required fields again.
  update audit_log_private.entry_counts c set required_path = null where c.action = old.code and c.writer_pid <> 0;
  return case when tg_op = 'DELETE' then old else new end;
end $$;
comment on function audit_log_private.change_action is 'Refuses to rename or delete an action that entries have.';

create trigger change_action
  before update of code, required or delete on audit_log.actions
  for each row execute function audit_log_private.change_action();

create function audit_log_private.add_key_actions() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into audit_log.actions (code, description, target, target_name)
  values
    ('api_key_created', 'Somebody created an API key for this log', 'api_key_id', 'name'),
    ('api_key_rotated', 'Somebody replaced an API key with a new one', 'api_key_id', 'name'),
    ('api_key_revoked', 'Somebody revoked an API key', 'api_key_id', 'name')
  on conflict do nothing;
  return null;
end $$;
comment on function audit_log_private.add_key_actions is 'Adds the actions of keys, where an organization logs them.';

create trigger add_key_actions
  after insert or update of logs_key_events on audit_log.organizations
  for each row when (new.logs_key_events) execute function audit_log_private.add_key_actions();
