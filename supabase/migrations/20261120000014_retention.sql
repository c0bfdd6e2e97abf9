-- Deletion: of old entries, and of an organization that leaves. As in the upkeep, one call is one bounded piece,
-- and its caller commits:
--
--   do $$ begin while audit_log_private.delete_entries_before('…', '2020-01-01') loop commit; end loop; end $$
--
-- An interruption loses at most one piece. Safe beside writers, readers and the upkeep, which then seals each day
-- again, with the number of removed entries.

create function audit_log_private.delete_first_entries(organization_id uuid, range_start date, range_end date) returns bigint
-- Planned for each range: a generic plan knows no sizes, and might read the whole table.
language plpgsql volatile set search_path = pg_catalog, pg_temp set plan_cache_mode = 'force_custom_plan' as $$
declare
  first_time constant timestamptz := range_start::timestamp at time zone 'UTC';
  end_time constant timestamptz := range_end::timestamp at time zone 'UTC';
  last_time timestamptz;
  last_id uuid;
  deleted bigint;
begin
  select e.created_at, e.id into last_time, last_id from audit_log.audit_entries e
  where e.organization_id = delete_first_entries.organization_id and e.created_at >= first_time and e.created_at < end_time
  order by e.created_at, e.id limit 1 offset 9999;
  if not found then
    last_time := end_time - interval '1 microsecond';
    last_id := 'ffffffff-ffff-ffff-ffff-ffffffffffff';
  end if;
  delete from audit_log.audit_entries e
  where e.organization_id = delete_first_entries.organization_id
    and e.created_at >= first_time and (e.created_at, e.id) <= (last_time, last_id);
  get diagnostics deleted = row_count;
  return deleted;
end $$;
comment on function audit_log_private.delete_first_entries is 'Deletes the oldest entries of a range of UTC days, range_end not included, at most 10,000. Returns how many.';

create function audit_log_private.delete_old_days(organization_id uuid, range_end date) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp set plan_cache_mode = 'force_custom_plan' as $$
declare
  first_day date;
  last_day date;
begin
  -- The counts tell where to begin, because until the next vacuum the index still has all that earlier pieces
  -- deleted. They also tell where to end: a day that fits into a piece is deleted in one, so that the upkeep
  -- cannot seal the rest of it in between.
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
comment on function audit_log_private.delete_old_days is 'Deletes an organization''s oldest entries before a UTC day: as many whole days as have 10,000 entries together, or 10,000 entries of one longer day. Returns whether it deleted any.';

create function audit_log_private.lock_organization(organization_id uuid) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  -- One piece at a time. Writers do not wait, because they only take a key share lock.
  perform from audit_log.organizations o where o.id = lock_organization.organization_id for no key update;
  if not found then
    raise exception 'there is no organization %', coalesce(organization_id::text, 'null: give its id') using errcode = 'P0002';
  end if;
end $$;
comment on function audit_log_private.lock_organization is 'Keeps other deletions in an organization waiting until the transaction ends. Raises P0002 if there is no such organization.';

create function audit_log_private.delete_entries_before(organization_id uuid, day date) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  today constant date := clock_timestamp() at time zone 'UTC';
begin
  if (day <= today) is not true then
    raise exception 'entries before % cannot be deleted: give a day that is not in the future, at most % (UTC)',
      coalesce(day::text, 'null'), today using errcode = 'invalid_parameter_value';
  end if;
  perform audit_log_private.lock_organization(organization_id);
  return audit_log_private.delete_old_days(organization_id, day);
end $$;
comment on function audit_log_private.delete_entries_before is 'Retention: deletes one piece, some 10,000 entries, of an organization''s entries before a UTC day. Returns whether there may be more. Raises 22023 if the day is null or in the future, P0002 if there is no such organization.';

create function audit_log_private.delete_organization(organization_id uuid) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  has_access boolean;
begin
  perform audit_log_private.lock_organization(organization_id);
  -- A piece of its own: from its commit on, nobody can read. Hashes and limits are deleted with the keys.
  delete from audit_log_private.api_keys k where k.organization_id = delete_organization.organization_id;
  has_access := found;
  delete from audit_log.organization_members m where m.organization_id = delete_organization.organization_id;
  if has_access or found then
    return true;
  end if;
  -- Locked against the upkeep, which must not find the organization gone, and against writers, which might
  -- never let this end. The upkeep's lock comes first, because the upkeep waits for the organization's.
  perform pg_advisory_xact_lock('audit_log_private.entry_counts'::regclass::oid::bigint);
  -- A writer holds either a count that it updates or, where it makes the first one, the organization. All are locked
  -- at once or none, so that no writer waits for this while this waits for it. For 5 seconds, because a writer that
  -- does not commit must not stop the upkeep of all.
  for attempt in 1 .. 100 loop
    begin
      perform from audit_log.organizations o where o.id = delete_organization.organization_id for update nowait;
      perform from audit_log_private.entry_counts c where c.organization_id = delete_organization.organization_id for update nowait;
      exit;
    exception when lock_not_available then
      if attempt = 100 then
        raise;
      end if;
      perform pg_sleep(0.05);
    end;
  end loop;
  perform audit_log_private.delete_old_days(organization_id, 'infinity');
  -- Looked for from the end: at the beginning the index still has the deleted ones.
  perform from audit_log.audit_entries e
  where e.organization_id = delete_organization.organization_id
  order by e.created_at desc, e.id desc limit 1;
  if found then
    return true;
  end if;
  set constraints audit_log_private.refuse_deletion deferred;
  delete from audit_log_private.seals s where s.organization_id = delete_organization.organization_id;
  delete from audit_log_private.entry_counts c where c.organization_id = delete_organization.organization_id;
  delete from audit_log.organizations o where o.id = delete_organization.organization_id;
  set constraints audit_log_private.refuse_deletion immediate;
  return false;
end $$;
comment on function audit_log_private.delete_organization is 'Deletes an organization and everything about it, one piece at a time: first its keys and members, then its entries by some 10,000, at last the rest with its seals. Returns whether there is more. Raises P0002 if there is no such organization, 55P03 if a writer does not commit within 5 seconds.';
