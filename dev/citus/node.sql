-- Prepares a Postgres to be a node. Run it as a superuser on each, the coordinator too, before it joins. Each must have
-- Supabase's roles, its functions auth.uid() and auth.jwt(), and Citus in shared_preload_libraries.

begin;
create extension if not exists citus;

-- Disables the event triggers that tell the Data API of each schema change. Citus uses two-phase commit, which refuses
-- a transaction that has used notify. After a change, notify the Data APIs yourself: notify pgrst, 'reload schema'
do $$
declare
  trigger record;
begin
  for trigger in select evtname from pg_event_trigger where evtname in ('pgrst_ddl_watch', 'pgrst_drop_watch') loop
    execute format('alter event trigger %I disable', trigger.evtname);
  end loop;
end $$;

-- The platform's inserts go from node to node as this role. It has no password: let it in from the nodes
-- alone (pg_hba.conf).
alter role service_role login;

-- Citus creates tables, shards and functions on each node, as the superuser and as postgres, and repeats the first
-- node's grants. It does not revoke a node's default privileges, so this does.
alter default privileges for role current_user, postgres revoke execute on functions from public;
alter default privileges for role current_user, postgres revoke all on tables from anon, authenticated, service_role;
alter default privileges for role current_user, postgres revoke all on functions from anon, authenticated, service_role;
commit;
