-- What has to be done now and then, in bounded pieces: no piece holds locks for long, however much has
-- gathered. A function with a search_path cannot commit, so whoever calls it does, after each piece:
--
--   do $$ begin while private.run_upkeep() loop commit; end loop; end $$

create function private.delete_old_log_reads() returns boolean
language plpgsql volatile set search_path = ''
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
  -- Of keys that nobody has used since.
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
comment on function private.delete_old_log_reads is 'Deletes what is known of reads more than 400 days ago, at most 1000 rows of each table; whether there may be more.';
revoke execute on function private.delete_old_log_reads from public, anon, authenticated, service_role;

create function private.run_upkeep() returns boolean
language plpgsql volatile set search_path = ''
as $$
declare
  more_counts constant boolean := private.compact_entry_counts();
  more_reads constant boolean := private.delete_old_log_reads();
begin
  return more_counts or more_reads;
end
$$;
comment on function private.run_upkeep is 'Does one bounded piece of all the upkeep; whether there may be more. Run it every night until there is none (README).';
revoke execute on function private.run_upkeep from public, anon, authenticated, service_role;
