-- What has to be done now and then, in bounded pieces: no piece holds locks for long, however much has
-- gathered. A function with a search_path cannot commit, so whoever calls it does, after each piece:
--
--   do $$ begin while private.run_upkeep() loop commit; end loop; end $$

create function private.run_upkeep() returns boolean
language sql volatile set search_path = ''
as $$ select private.compact_entry_counts() $$;
comment on function private.run_upkeep is 'Does one bounded piece of the upkeep; whether there may be more. Run it every night until there is none (README).';
revoke execute on function private.run_upkeep from public, anon, authenticated, service_role;
