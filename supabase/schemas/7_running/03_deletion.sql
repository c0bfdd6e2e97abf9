-- Deletes old entries, and organizations that leave. A hold forbids both. As in the upkeep, one call does one bounded
-- piece, and its caller commits (docs/operating.md). It is safe beside writers, readers and the upkeep.

create function audit_log_private.log_settings() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  request constant record := audit_log_private.request_context();
begin
  insert into audit_log.actions (code, description)
  values
    ('retention_changed', 'The platform changed after how many days entries are deleted'),
    ('hold_changed', 'The platform set, changed or ended a hold, which keeps entries from being deleted')
  on conflict do nothing;
  insert into audit_log.audit_entries (organization_id, action, user_email, agent_name, data)
  select
    new.id, s.action, coalesce(request.email, request.fallback_email), 'Audit log settings',
    audit_log_private.fitted(jsonb_build_object(
      'changes', jsonb_build_object(s.name, jsonb_build_array(s.before, s.after)), 'database_role', session_user
    ) || request.data)
  from (
    values
      ('retention_changed', 'keep_days', to_jsonb(old.keep_days), to_jsonb(new.keep_days)),
      ('hold_changed', 'hold_reason', to_jsonb(old.hold_reason), to_jsonb(new.hold_reason))
  ) as s (action, name, before, after)
  where s.before is distinct from s.after;
  return null;
end $$;
comment on function audit_log_private.log_settings is 'Logs a change of retention or of a hold.';

-- Also without logs_key_events: an auditor has to see how long entries are kept. A closed log takes no entry.
create trigger log_settings
  after update of keep_days, hold_reason on audit_log.organizations
  for each row when (
    (new.keep_days, new.hold_reason) is distinct from (old.keep_days, old.hold_reason) and new.closed_at is null
  )
  execute function audit_log_private.log_settings();

create function audit_log_private.delete_first_entries(
  organization_id uuid, range_start date, range_end date
) returns bigint
-- Planned for each range: a generic plan knows no sizes, and might read the whole table.
language plpgsql volatile set search_path = pg_catalog, pg_temp set plan_cache_mode = 'force_custom_plan' as $$
declare
  first_time constant timestamptz := range_start::timestamp at time zone 'UTC';
  end_time constant timestamptz := range_end::timestamp at time zone 'UTC';
  last audit_log_private.place;
  deleted bigint;
begin
  select e.created_at, e.id into last from audit_log.audit_entries e
  where e.organization_id = delete_first_entries.organization_id
    and e.created_at >= first_time and e.created_at < end_time
  order by e.created_at, e.id limit 1 offset 9999;
  if not found then
    last := audit_log_private.place_before(end_time);
  end if;
  delete from audit_log.audit_entries e
  where e.organization_id = delete_first_entries.organization_id
    and e.created_at >= first_time and (e.created_at, e.id) <= (last.created_at, last.id);
  get diagnostics deleted = row_count;
  return deleted;
end $$;
comment on function audit_log_private.delete_first_entries is 'Deletes at most 10,000 entries, the oldest first.';

create function audit_log_private.delete_old_days(organization_id uuid, range_end date) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp set plan_cache_mode = 'force_custom_plan' as $$
declare
  first_day date;
  last_day date;
begin
  -- The counts tell where to begin, because until the next vacuum the index still has what earlier pieces deleted. And
  -- where to end: a day that fits into a piece is deleted in one, so that nothing seals the rest of it in between.
  select min(d.day), max(d.day) filter (where d.running_total <= 10000) into first_day, last_day from (
    select c.day, sum(sum(c.entries)) over (order by c.day) as running_total from audit_log_private.entry_counts c
    where c.organization_id = delete_old_days.organization_id and c.day < delete_old_days.range_end
    group by c.day having sum(c.entries) > 0
  ) as d;
  if audit_log_private.delete_first_entries(organization_id, first_day, coalesce(last_day, first_day) + 1) > 0 then
    return true;
  end if;
  -- Entries that the counts miss, if they are wrong.
  return audit_log_private.delete_first_entries(organization_id, '-infinity', range_end) > 0;
end $$;
comment on function audit_log_private.delete_old_days is
  'Deletes the oldest days of 10,000 entries together, or 10,000 entries of a longer one. Returns whether it did.';

create function audit_log_private.lock_for_deletion(organization_id uuid) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  hold_reason text;
begin
  -- One piece at a time. Writers do not wait, because they only take a key share lock. The owner who sets a hold waits,
  -- and the next piece finds it: an older snapshot (repeatable read) fails here.
  select o.hold_reason into hold_reason from audit_log.organizations o
  where o.id = lock_for_deletion.organization_id for no key update;
  if not found then
    raise exception 'there is no organization %', coalesce(organization_id::text, 'null: give its id')
      using errcode = 'P0002';
  end if;
  if hold_reason is not null then
    raise exception 'organization % is on hold, so nothing of it may be deleted: %', organization_id, hold_reason
      using errcode = 'object_in_use';
  end if;
end $$;
comment on function audit_log_private.lock_for_deletion is 'Other deletions wait. Raises P0002, or 55006 if on hold.';

create function audit_log_private.delete_entries_before(organization_id uuid, day date) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  if (day <= (clock_timestamp() at time zone 'UTC')::date) is not true then
    raise exception 'entries before % cannot be deleted: give a day that is not in the future (UTC)',
      coalesce(day::text, 'null') using errcode = 'invalid_parameter_value';
  end if;
  perform audit_log_private.lock_for_deletion(organization_id);
  return audit_log_private.delete_old_days(organization_id, day);
end $$;
comment on function audit_log_private.delete_entries_before is
  'Deletes one piece of the entries before a UTC day. Returns whether there may be more.';

create function audit_log_private.delete_expired(organization_id uuid) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  today constant date := clock_timestamp() at time zone 'UTC';
  days integer;
begin
  delete from audit_log_private.log_reads r
  where r.organization_id = delete_expired.organization_id and r.day < today - 400;
  update audit_log_private.rate_limits r
  set day = null, requests = 0, invalid_requests = 0, refused_requests = 0, entries = 0,
    first_at = null, last_at = null, last_address = null
  where r.organization_id = delete_expired.organization_id and r.day < today - 400;
  -- Another deletion may be at work, and must not be waited for. What it leaves is deleted the next night.
  select o.keep_days into days from audit_log.organizations o
  where o.id = delete_expired.organization_id and o.keep_days is not null and o.hold_reason is null
  for no key update skip locked;
  if days is null then
    return false;
  end if;
  return audit_log_private.delete_old_days(organization_id, today - days);
end $$;
comment on function audit_log_private.delete_expired is
  'Deletes old reads, and one piece of what is older than keep_days. Returns whether it deleted any entry.';

create function audit_log_private.try_to_close(organization_id uuid) returns boolean
-- lock_timeout: others may hold what is ended below while they wait for the organization.
language plpgsql volatile set search_path = pg_catalog, pg_temp set lock_timeout = '10ms' as $$
begin
  -- A writer locks the row of counts that it updates; if it inserts one, it locks the organization. So does whoever
  -- creates what is ended below.
  perform from audit_log.organizations o where o.id = try_to_close.organization_id for update skip locked;
  if not found then
    raise exception using errcode = 'lock_not_available';
  end if;
  update audit_log_private.api_keys k set revoked_at = clock_timestamp()
  where k.organization_id = try_to_close.organization_id and k.revoked_at is null;
  perform audit_log_private.delete_more_of(organization_id);
  -- Makes writers look the organization up again.
  update audit_log_private.entry_counts c set required_path = null
  where c.organization_id = try_to_close.organization_id
    and (c.day, c.action, c.writer_pid, c.part) in (
      select w.day, w.action, w.writer_pid, w.part from audit_log_private.entry_counts w
      where w.organization_id = try_to_close.organization_id
        and w.writer_pid <> 0 and w.required_path is not null
      for update skip locked
    );
  perform from audit_log_private.entry_counts c
  where c.organization_id = try_to_close.organization_id and c.writer_pid <> 0 and c.required_path is not null;
  if found then
    -- Gives back what it has locked: a writer that is waited for may need it.
    raise exception using errcode = 'lock_not_available';
  end if;
  update audit_log.organizations o set closed_at = clock_timestamp()
  where o.id = try_to_close.organization_id and o.closed_at is null;
  return true;
exception
  when lock_not_available then
    return false;
end $$;
comment on function audit_log_private.try_to_close is 'Closes an organization, or returns false: a writer is at work.';

create function audit_log_private.close_organization(platform_id text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  organization_id constant uuid := audit_log_private.organization_named(platform_id);
begin
  -- Of what the log does not know, nobody could read anything.
  for attempt in 1 .. 100 loop
    if organization_id is null or audit_log_private.try_to_close(organization_id) then
      return;
    end if;
    perform pg_sleep(0.05);
  end loop;
  raise exception 'a writer has not committed for 5 seconds: try again' using errcode = 'lock_not_available';
end $$;
comment on function audit_log_private.close_organization is
  'Lets nobody read or write a log until the owner sets closed_at to null. The platform may give the id to another '
  'customer. Raises 55P03 if a writer does not commit.';

create function audit_log_private.delete_organization(organization_id uuid) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  organization audit_log.organizations;
begin
  perform audit_log_private.lock_for_deletion(organization_id);
  select o.* into strict organization from audit_log.organizations o where o.id = organization_id;
  if organization.leaving_at is null then
    -- A piece of its own: from its commit on, nobody has access, nothing is sent, and nobody writes.
    perform audit_log_private.close_organization(organization.platform_id);
    update audit_log.organizations o set leaving_at = clock_timestamp()
    where o.id = delete_organization.organization_id;
    delete from audit_log_private.api_keys k where k.organization_id = delete_organization.organization_id;
    delete from audit_log.organization_members m
    where organization.platform_id in (m.organization_id, lower(m.organization_id))
      and audit_log.organization_uuid(m.organization_id) = organization.id;
    return true;
  end if;
  -- Locked against the upkeep, which must not find the organization gone, before it waits for the organization's lock.
  perform pg_advisory_xact_lock('audit_log_private.entry_counts'::regclass::oid::bigint);
  perform audit_log_private.delete_old_days(organization_id, 'infinity');
  -- From the end, because until the next vacuum the beginning of the index is full of deleted entries.
  perform from audit_log.audit_entries e
  where e.organization_id = delete_organization.organization_id
  order by e.created_at desc, e.id desc limit 1;
  if found then
    return true;
  end if;
  set constraints audit_log_private.refuse_deletion deferred;
  delete from audit_log_private.seals s where s.organization_id = delete_organization.organization_id;
  delete from audit_log_private.entry_counts c where c.organization_id = delete_organization.organization_id;
  delete from audit_log_private.removed_entries r where r.organization_id = delete_organization.organization_id;
  delete from audit_log.organizations o where o.id = delete_organization.organization_id;
  set constraints audit_log_private.refuse_deletion immediate;
  return false;
end $$;
comment on function audit_log_private.delete_organization is
  'Deletes an organization, one piece at a time. Returns whether there is more. Raises P0002, 55006 while on hold, '
  '55P03 if a writer does not commit.';
