-- What has to be done now and then, in bounded pieces: no piece holds locks for long, however much has
-- gathered. A function with a search_path cannot commit, so whoever calls it does, after each piece:
--
--   do $$ begin while private.run_upkeep() loop commit; end loop; end $$

create function private.delete_old_log_reads(max_rows integer default 1000) returns boolean
language plpgsql volatile set search_path = ''
as $$
declare
  deleted bigint;
begin
  delete from private.log_reads r
  using (
    select o.organization_id, o.reader_id, o.day
    from private.log_reads o
    where o.day < (clock_timestamp() at time zone 'UTC')::date - 400
    order by o.day
    limit max_rows
  ) as old
  where r.organization_id = old.organization_id and r.reader_id = old.reader_id and r.day = old.day;
  get diagnostics deleted = row_count;
  return deleted = max_rows;
end
$$;
comment on function private.delete_old_log_reads is 'Deletes what is known of reads more than 400 days ago, at most so many rows; whether there may be more.';
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
