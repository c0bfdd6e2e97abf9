-- Deletes old entries, and organizations that leave. Holds forbid both. As in the upkeep, one call does one bounded
-- piece, and its caller commits (docs/operating.md). It is safe beside writers, readers and the upkeep, which then
-- seals each day again, with the number of removed entries.

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
comment on function audit_log_private.delete_first_entries is
  'Deletes the oldest entries of a range of UTC days, range_end not included, at most 10,000. Returns how many.';

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
comment on function audit_log_private.delete_old_days is
  'Deletes the oldest entries before a UTC day: whole days of 10,000 entries together, or 10,000 of one longer day. '
  'Returns whether it deleted any.';

create table audit_log_private.holds (
  -- Not on delete cascade: an organization on hold cannot go in any other way either.
  organization_id uuid not null references audit_log.organizations,
  reason text not null check (reason ~ E'\\S' and char_length(reason) <= 200),
  held_by text not null check (held_by ~ E'\\S'),
  held_at timestamptz not null default clock_timestamp(),
  released_by text check (released_by ~ E'\\S'),
  released_at timestamptz,
  primary key (organization_id, reason, held_at),
  check ((released_at is null) = (released_by is null))
);
comment on table audit_log_private.holds is
  'Orders not to delete an organization''s entries, with who gave and who released them. Kept until the '
  'organization is deleted.';

-- The same reason stands once. Others may stand beside it, each until its own release.
create unique index holds_standing_key on audit_log_private.holds (organization_id, reason) where released_at is null;

create function audit_log_private.standing_holds(organization_id uuid) returns json
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return (
    select coalesce(json_agg(json_build_object(
      'reason', h.reason, 'held_by', h.held_by, 'held_at', audit_log_private.api_time(h.held_at)
    ) order by h.held_at), '[]')
    from audit_log_private.holds h
    where h.organization_id = standing_holds.organization_id and h.released_at is null
  );
end $$;
comment on function audit_log_private.standing_holds is
  'An organization''s holds that are not released, the oldest first: [{reason, held_by, held_at}].';

create function audit_log_private.lock_organization(organization_id uuid, for_deletion boolean) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  holds text;
begin
  -- One piece at a time. Writers do not wait, because they only take a key share lock.
  perform from audit_log.organizations o where o.id = lock_organization.organization_id for no key update;
  if not found then
    raise exception 'there is no organization %', coalesce(organization_id::text, 'null: give its id')
      using errcode = 'P0002';
  end if;
  holds := audit_log_private.standing_holds(organization_id);
  if for_deletion and holds <> '[]' then
    raise exception 'organization % is on hold, so nothing of it may be deleted: %', organization_id, holds
      using errcode = 'object_in_use';
  end if;
end $$;
comment on function audit_log_private.lock_organization is
  'Keeps other deletions in an organization waiting. Raises P0002 if it is not there; for a deletion, 55006 while '
  'on hold.';

create function audit_log_private.hold(organization_id uuid, reason text, who text default session_user) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  -- Waits for the piece of a deletion that is at work. The next one finds the hold.
  perform audit_log_private.lock_organization(organization_id, for_deletion => false);
  -- Changes the row, so that a deletion with an older snapshot (repeatable read), which cannot find it, fails.
  update audit_log.organizations o set name = o.name where o.id = hold.organization_id;
  insert into audit_log_private.holds (organization_id, reason, held_by)
  values (hold.organization_id, hold.reason, who);
end $$;
comment on function audit_log_private.hold is
  'From its commit on, the service deletes no entry of the organization until release(). Raises P0002, or 23505 for a '
  'reason that stands.';

create function audit_log_private.release(organization_id uuid, reason text, who text default session_user) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  clock constant timestamptz := clock_timestamp();
begin
  update audit_log_private.holds h set released_by = who, released_at = clock
  where h.organization_id = release.organization_id and h.reason = release.reason and h.released_at is null;
  if not found then
    raise exception 'organization % has no standing hold "%"',
      coalesce(organization_id::text, 'null'), coalesce(reason, 'null')
      using errcode = 'P0002';
  end if;
end $$;
comment on function audit_log_private.release is
  'Ends the hold with this reason. Others may still stand. Raises P0002 if none with this reason stands.';

create function audit_log_private.delete_entries_before(organization_id uuid, day date) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  today constant date := clock_timestamp() at time zone 'UTC';
begin
  if (day <= today) is not true then
    raise exception 'entries before % cannot be deleted: give a day that is not in the future, at most % (UTC)',
      coalesce(case when isfinite(day) then to_char(day, 'YYYY-MM-DD') else day::text end, 'null'),
      to_char(today, 'YYYY-MM-DD')
      using errcode = 'invalid_parameter_value';
  end if;
  perform audit_log_private.lock_organization(organization_id, for_deletion => true);
  return audit_log_private.delete_old_days(organization_id, day);
end $$;
comment on function audit_log_private.delete_entries_before is
  'Retention: deletes one piece of the entries before a UTC day. Returns whether there may be more. Raises 22023 '
  'for a day to come, P0002 for no organization, 55006 while on hold.';

create function audit_log_private.delete_expired_entries(organization_id uuid) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  days integer;
begin
  -- Another deletion may be at work, and must not be waited for. What it leaves is deleted the next night.
  select o.keep_days into days from audit_log.organizations o
  where o.id = delete_expired_entries.organization_id and o.keep_days is not null
  for no key update skip locked;
  if days is null or audit_log_private.standing_holds(organization_id)::text <> '[]' then
    return false;
  end if;
  return audit_log_private.delete_old_days(organization_id, (clock_timestamp() at time zone 'UTC')::date - days);
end $$;
comment on function audit_log_private.delete_expired_entries is
  'Scheduled retention: deletes one piece of what is older than keep_days, unless on hold. Returns whether it '
  'deleted any.';

create function audit_log_private.delete_organization(organization_id uuid) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  has_more boolean;
begin
  perform audit_log_private.lock_organization(organization_id, for_deletion => true);
  -- A piece of its own: from its commit on, nobody has access, nothing is sent, and nobody writes for long. Hashes and
  -- limits are deleted with the keys.
  update audit_log.organizations o set leaving_at = clock_timestamp()
  where o.id = delete_organization.organization_id and o.leaving_at is null;
  has_more := found;
  delete from audit_log_private.api_keys k where k.organization_id = delete_organization.organization_id;
  has_more := has_more or found;
  delete from audit_log_private.streams s where s.organization_id = delete_organization.organization_id;
  has_more := has_more or found;
  delete from audit_log.organization_members m where m.organization_id = delete_organization.organization_id;
  if has_more or found then
    return true;
  end if;
  -- Locked against the upkeep, which must not find the organization gone. First, because the upkeep waits for the
  -- organization's lock.
  perform pg_advisory_xact_lock('audit_log_private.entry_counts'::regclass::oid::bigint);
  perform audit_log_private.delete_old_days(organization_id, 'infinity');
  -- Makes writers look the organization up again, and find it leaving. The next call does the same with what they hold
  -- now.
  update audit_log_private.entry_counts c set required_path = null
  where c.organization_id = delete_organization.organization_id
    and (c.day, c.action, c.writer_pid, c.part) in (
      select w.day, w.action, w.writer_pid, w.part from audit_log_private.entry_counts w
      where w.organization_id = delete_organization.organization_id
        and w.writer_pid <> 0 and w.required_path is not null
      for update skip locked
    );
  has_more := found;
  for attempt in 1 .. 100 loop
    -- From the end, because until the next vacuum the beginning of the index is full of deleted entries.
    perform from audit_log.audit_entries e
    where e.organization_id = delete_organization.organization_id
    order by e.created_at desc, e.id desc limit 1;
    if has_more or found then
      return true;
    end if;
    if audit_log_private.delete_empty_organization(organization_id) then
      return false;
    end if;
    perform pg_sleep(0.05);
  end loop;
  raise exception 'a writer has not committed for 5 seconds: try again' using errcode = 'lock_not_available';
end $$;
comment on function audit_log_private.delete_organization is
  'Deletes an organization, one piece at a time: first keys, streams and members, then entries, at last its seals. '
  'Returns whether there is more. Raises P0002, 55006 while on hold, 55P03 if a writer does not commit.';

create function audit_log_private.delete_empty_organization(organization_id uuid) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  locked bigint;
  counts bigint;
begin
  -- A writer locks the row of counts that it updates; if it inserts the first one, it locks the organization.
  perform from audit_log.organizations o where o.id = delete_empty_organization.organization_id for update skip locked;
  if not found then
    return false;
  end if;
  select count(*) into locked from (
    select from audit_log_private.entry_counts c
    where c.organization_id = delete_empty_organization.organization_id and c.writer_pid <> 0 for update skip locked
  ) as c;
  select count(*) into counts from audit_log_private.entry_counts c
  where c.organization_id = delete_empty_organization.organization_id and c.writer_pid <> 0;
  perform from audit_log.audit_entries e where e.organization_id = delete_empty_organization.organization_id limit 1;
  if found or locked <> counts then
    -- Gives back what it has locked: a writer that is waited for may need it.
    raise exception using errcode = 'lock_not_available';
  end if;
  set constraints audit_log_private.refuse_deletion deferred;
  delete from audit_log_private.seals s where s.organization_id = delete_empty_organization.organization_id;
  delete from audit_log_private.entry_counts c where c.organization_id = delete_empty_organization.organization_id;
  delete from audit_log_private.holds h where h.organization_id = delete_empty_organization.organization_id;
  delete from audit_log.organizations o where o.id = delete_empty_organization.organization_id;
  set constraints audit_log_private.refuse_deletion immediate;
  return true;
exception
  when lock_not_available then
    return false;
end $$;
comment on function audit_log_private.delete_empty_organization is
  'The last piece of delete_organization, if no writer is at work. Otherwise it returns false, and locks nothing.';
