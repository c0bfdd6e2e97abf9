-- Upkeep: regular work in bounded pieces, so that no piece holds locks for long, however much there is to do. A
-- function with a search_path cannot commit, so its caller commits after each piece:
--
--   do $$ begin while private.run_upkeep() loop commit; end loop; end $$

create function private.delete_old_log_reads() returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
  oldest constant date := (clock_timestamp() at time zone 'UTC')::date - 400;
  deleted bigint;
  forgotten bigint;
begin
  delete from private.log_reads r
  using (
    select o.organization_id, o.reader_id, o.day
    from private.log_reads o
    where o.day < oldest
    order by o.day
    limit 1000
  ) as old
  where r.organization_id = old.organization_id and r.reader_id = old.reader_id and r.day = old.day;
  get diagnostics deleted = row_count;
  -- Keys that were not used since.
  update private.rate_limits r
  set day = null, requests = 0, invalid_requests = 0, entries = 0, first_at = null, last_at = null, last_address = null
  from (
    select o.organization_id, o.api_key_id
    from private.rate_limits o
    where o.day < oldest
    order by o.day
    limit 1000
    for update skip locked
  ) as old
  where r.organization_id = old.organization_id and r.api_key_id = old.api_key_id;
  get diagnostics forgotten = row_count;
  return greatest(deleted, forgotten) = 1000;
end
$$;
comment on function private.delete_old_log_reads is 'Deletes records of reads more than 400 days ago, at most 1000 rows of each table. Returns whether there may be more.';
revoke execute on function private.delete_old_log_reads from public, anon, authenticated, service_role;

create table private.upkeep_state (
  is_only boolean primary key default true check (is_only),
  last_run_at timestamptz,
  compacted_at timestamptz
);
comment on table private.upkeep_state is 'One row: when the upkeep last finished.';
comment on column private.upkeep_state.compacted_at is 'When the run in progress had compacted all counts; null before.';
alter table private.upkeep_state enable row level security;
revoke all on private.upkeep_state from public, anon, authenticated, service_role;
insert into private.upkeep_state default values;

create function private.run_upkeep() returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
  has_more boolean;
begin
  -- Not in a restored database before it is adopted: its snapshots may not see entries of another cluster's
  -- transactions, so days would be sealed without them, or found altered.
  perform private.feed_key('');
  -- Several runs at once take turns, piece by piece.
  perform pg_advisory_xact_lock('private.entry_counts'::regclass::oid::bigint);
  -- Pieces of their own: writers of late entries wait until the counts that these pieces lock are committed, and
  -- a long day takes minutes to seal. An hour: an interrupted run leaves its time behind.
  perform from private.upkeep_state u where u.compacted_at > clock_timestamp() - interval '1 hour';
  if not found then
    if not private.compact_entry_counts() then
      insert into private.upkeep_state (compacted_at) values (clock_timestamp())
      on conflict (is_only) do update set compacted_at = excluded.compacted_at;
    end if;
    return true;
  end if;
  has_more := private.seal_days();
  has_more := private.scrub_days() or has_more;
  has_more := private.delete_old_log_reads() or has_more;
  update private.upkeep_state set last_run_at = clock_timestamp(), compacted_at = null where not has_more;
  return has_more;
end
$$;
comment on function private.run_upkeep is 'Does one bounded piece of all upkeep. Returns whether there may be more. Run it every night until there is none (docs/operating.md). Raises 55000 in a restored database until adopt_restored_log() has run.';
revoke execute on function private.run_upkeep from public, anon, authenticated, service_role;

create function private.health() returns json
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
declare
  today constant date := clock_timestamp() at time zone 'UTC';
begin
  return json_build_object(
    'last_upkeep_at', (select u.last_run_at from private.upkeep_state u),
    'oldest_unsealed_day', least(
      (select min(c.day) from private.entry_counts c where c.writer_pid <> 0 and c.day < today),
      (select min(d.day) from private.days_to_seal d)
    ),
    'altered_days', (
      select coalesce(json_agg(
        json_build_object('organization_id', d.organization_id, 'day', d.day, 'altered_at', d.altered_at)
        order by d.organization_id, d.day
      ), '[]')
      from private.sealed_days d
      where d.altered_at is not null
    ),
    'miscounted_days', (
      select coalesce(json_agg(
        json_build_object('organization_id', d.organization_id, 'day', d.day, 'entries', d.miscounted)
        order by d.organization_id, d.day
      ), '[]')
      from private.sealed_days d
      where d.miscounted <> 0
    ),
    'is_adopted', exists (
      select from private.feed_keys k where k.system_identifier = (pg_control_system()).system_identifier
    )
  );
end
$$;
comment on function private.health is 'What an operator must know (docs/operating.md): when the upkeep last finished; the oldest finished day without an up-to-date seal; days whose entries were changed silently, and days with wrong counts, as last checked; whether a restored database was adopted.';
revoke execute on function private.health from public, anon, authenticated, service_role;
