-- Spreads the organizations of an installed project over several nodes, with Citus. Run once, on the coordinator, as
-- a superuser, while nobody writes: docs/scaling.md has the steps. From `begin` on, all of it happens, or nothing.

do $$
declare
  failed text;
begin
  if to_regnamespace('audit_log_here') is not null then
    failed := 'it is distributed already';
  elsif (select count(*) < 2 or min(n.groupid) > 0 from pg_dist_node n where n.isactive) then
    failed := 'Citus knows no other node, or not this one';
  elsif exists (select from audit_log_private.logged_tables()) then
    failed := 'log_table logs tables: first end it with audit_log_private.unlog_table(…)';
  elsif to_regclass('audit_log_private.streams') is not null and exists (select from audit_log_private.streams) then
    failed := 'there are streams: first let administrators delete them';
  else
    -- Before Citus makes anything on the nodes: event triggers that tell the Data API of each change would forbid
    -- two-phase commit; the platform's inserts go from node to node as service_role; and Citus repeats grants, but
    -- revokes nothing that a node grants by default.
    select string_agg(n.result, ', ') into failed from run_command_on_all_nodes($node$
      do $do$
      begin
        set local citus.enable_ddl_propagation = off;
        execute (
          select coalesce(string_agg(format('alter event trigger %I disable', t.evtname), ';'), 'select')
          from pg_event_trigger t where t.evtname in ('pgrst_ddl_watch', 'pgrst_drop_watch')
        );
        alter role service_role login;
        alter default privileges for role current_user, postgres
          revoke all on functions from public, anon, authenticated, service_role;
        alter default privileges for role current_user, postgres
          revoke all on tables from anon, authenticated, service_role;
      end $do$
    $node$) n where not n.success;
  end if;
  if failed is not null then
    raise exception 'the project was not distributed: %', failed using errcode = 'object_not_in_prerequisite_state';
  end if;
end $$;

begin;
-- Works on this node alone at first: of what several roles create on several nodes, some is seen only after a commit.
select set_config('role', relowner::regrole::text, true) from pg_class where oid = 'audit_log.audit_entries'::regclass;
set local citus.enable_ddl_propagation = off;
set local search_path = pg_catalog;

-- 1. Each node counts its transactions itself, and has keys of its own for cursors. So the log begins a new epoch, in
-- which all entries that are there are older than those that the nodes will write. And an organization stays on its
-- node: on another one, the numbers of its entries would mean other moments.
select audit_log_private.adopt_restored_log();
alter table audit_log_private.cursor_keys drop column is_only, add primary key (system_identifier);

create table audit_log_private.homes (
  organization_id uuid primary key references audit_log.organizations on delete cascade,
  system_identifier bigint not null
);
comment on table audit_log_private.homes is 'The node that writes an organization''s entries.';
alter table audit_log_private.homes enable row level security;

create function audit_log_private.number_entry() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  here constant bigint := (pg_control_system()).system_identifier;
  home bigint;
begin
  -- Looked up once for each transaction.
  if current_setting('audit_log.home', true) is distinct from new.organization_id::text then
    select h.system_identifier into home from audit_log_private.homes h where h.organization_id = new.organization_id;
    if not found then
      insert into audit_log_private.homes as h values (new.organization_id, here)
      on conflict on constraint homes_pkey do update set system_identifier = h.system_identifier
      returning h.system_identifier into home;
    end if;
    if home <> here then
      raise exception 'the organization % was moved to another node: move its shard back', new.organization_id
        using errcode = 'object_not_in_prerequisite_state';
    end if;
    perform set_config('audit_log.home', new.organization_id::text, true);
  end if;
  new.transaction_id := audit_log_private.transaction_number();
  return new;
end $$;
comment on function audit_log_private.number_entry is 'Numbers an entry on its node. Made by distribute.sql.';
create trigger number_entry before insert on audit_log.audit_entries
  for each row execute function audit_log_private.number_entry();
-- Citus evaluates a default on the node that receives the statement, not on the node of the entry.
alter table audit_log.audit_entries alter column transaction_id drop default;

-- 2. What reads or writes in several statements is handed over. The function of the migrations goes to another schema,
-- and one that calls it takes its place: plpgsql finds functions by name at each call. Citus runs a call on the node of
-- the organization (not null) if it is in a FROM clause and its arguments are constants. There, further calls stay.
create schema audit_log_here;
comment on schema audit_log_here is 'What runs on the node that has the organization. Made by distribute.sql.';
do $$
begin
  execute (
    select string_agg(
      format(
        'alter function %s set schema audit_log_here;'
        'create function audit_log_private.%I(%s) returns %s language plpgsql %s '
        'set search_path = pg_catalog, pg_temp as %L',
        p.oid::regprocedure, p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid),
        case p.provolatile when 's' then 'stable' else 'volatile' end,
        format(
          'declare answer %s; begin '
          'execute format(''select a.* from audit_log_here.%I(%s) as a'', %s) into answer; return answer; end',
          pg_get_function_result(p.oid), p.proname, array_to_string(array_fill('%L'::text, array[p.pronargs]), ', '),
          array_to_string(
            'coalesce(organization_id, ''00000000-0000-0000-0000-000000000000'')'::text || p.proargnames[2:], ', '
          )
        )
      ), ';'
    )
    from pg_proc p
    where p.pronamespace = 'audit_log_private'::regnamespace and p.proname in (
      'answer_request', 'read_page', 'read_feed', 'read_seals', 'delete_expired', 'compact_entry_counts',
      'seal_and_compare'
    )
  );

  -- Citus refuses functions in SQL that read distributed tables. In plpgsql, each part of their union is a statement.
  execute (
    select string_agg(
      format(
        '%s language plpgsql %s as %L', made.parts[1], made.parts[2],
        'begin return query ' || replace(made.parts[3], 'UNION ALL', '; return query ') || '; end'
      ), ';'
    )
    from pg_proc p join pg_language l on l.oid = p.prolang and l.lanname = 'sql'
    cross join regexp_match(pg_get_functiondef(p.oid), '^(.*)LANGUAGE sql(.*)BEGIN ATOMIC(.*);\s*END') as made (parts)
    where p.pronamespace = 'audit_log_private'::regnamespace and p.proretset
  );
  -- A row of the table itself has the type of a shard there.
  execute (
    select string_agg(replace(pg_get_functiondef(p.oid), '(e)', '(row(e.*)::audit_log.audit_entries)'), ';')
    from pg_proc p where p.pronamespace = 'audit_log_private'::regnamespace and p.proname in ('line_of', 'hash_day')
  );
  -- Triggers that are gone on purpose (4) are not missed.
  execute replace(pg_get_functiondef('audit_log_private.disabled_triggers'::regproc), 'where c.relnamespace',
    'where c.relname <> ''actions'' and s.name not in (''add_key_actions'', ''log_settings'', ''call_person_left'')'
    ' and c.relnamespace');
  -- A statement on distributed tables reads no transition table. And no organization is leaving.
  execute regexp_replace(pg_get_functiondef('audit_log_private.note_removed_entries'::regproc),
    'begin\s+(insert [^)]*\))([^;]*)\s--[^;]*;',
    'declare was audit_log_private.removed_entries; begin for was.organization_id, was.day, was.transaction_id, '
    'was.checksum in \2 loop \1 values (was.organization_id, was.day, was.transaction_id, was.checksum); end loop;');
  -- Citus knows the node of a query if it compares each table with a constant. It updates with no volatile function.
  execute replace(
    pg_get_functiondef('audit_log_private.list_api_keys'::regproc), 'k.organization_id and', 'organization and');
  execute replace(pg_get_functiondef('audit_log_private.revoke_api_key'::regproc), 'clock_', 'statement_');
  -- Citus must know the organization, so functions that read plan each call anew.
  execute (
    select string_agg(format('alter function %s reset plan_cache_mode', p.oid::regprocedure), ';')
    from pg_proc p where 'plan_cache_mode=force_generic_plan' = any (p.proconfig)
  );
  -- What does not work on several nodes says so, or that there is none (README.md).
  execute (
    select string_agg(
      split_part(pg_get_functiondef(p.oid), 'AS $function$', 1) || format('as %L', format('begin %s; end', coalesce(
        does.statement, format('raise exception %L using errcode = ''0A000''', p.proname || ' does not work with Citus')
      ))), ';'
    )
    from (
      values
        ('return ''[]''', '{list_streams,troubled_streams,unused_organizations}'::text[]),
        (null, '{adopt_restored_log,close_organization,create_stream,delete_organization,log_table,person_left}'),
        ('return false', '{are_streams_down}'), ('return', '{follow_deleted_accounts,logging_problems,more_metrics}')
    ) as does (statement, functions)
    join pg_proc p on p.proname = any (does.functions)
    join pg_language l on l.oid = p.prolang and l.lanname = 'plpgsql'
    where p.pronamespace in ('audit_log'::regnamespace, 'audit_log_private'::regnamespace)
  );
end $$;
-- Limits a transaction to one connection for each node. With several, it may wait for itself.
alter function audit_log_private.run_upkeep set citus.max_adaptive_executor_pool_size = 1;
-- The query of list_seals calls it where the organization is.
alter function audit_log_private.chain_end set citus.allow_nested_distributed_execution = on;

-- 3. The catalogue of actions will be on every node, and have no triggers. Privileges do what its own did. Those that
-- write to it from shards cannot, so an organization adds the actions of keys now.
insert into audit_log.organizations (id, platform_id, logs_key_events)
values ('00000000-0000-0000-0000-000000000000', '00000000-0000-0000-0000-000000000000', true);
delete from audit_log.organizations where id = '00000000-0000-0000-0000-000000000000';
revoke update, delete, truncate on audit_log.actions from current_user;
grant update (description, deprecated_at) on audit_log.actions to current_user;
-- Citus keeps a key unique only if it includes the organization. This one is, because the UUID is made from it.
alter table audit_log.organizations drop constraint organizations_platform_id_key;

-- 4. The tables, then every function on every node.
set local role none;
set local citus.enable_ddl_propagation = on;
set local citus.enable_unsafe_triggers = on;
set local citus.multi_shard_modify_mode = 'sequential';

do $$
declare
  everywhere constant regclass[] := array_remove('{
    audit_log.actions,audit_log.organization_members,audit_log_private.api_key_hashes,audit_log_private.cursor_keys,
    audit_log_private.logging_failures}'::regclass[] || to_regclass('audit_log_private.stream_home'), null);
  distributed constant regclass[] := 'audit_log.organizations'::regclass || array(
    select c.oid::regclass from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'organization_id'
    where c.relnamespace in ('audit_log'::regnamespace, 'audit_log_private'::regnamespace) and c.relkind = 'r'
      and c.oid <> all (everywhere)
    order by c.oid
  );
  -- The data is moved without triggers, so that none changes it. Three would do what shards cannot.
  triggers constant text[] := array(
    select pg_get_triggerdef(t.oid) from pg_trigger t where not t.tgisinternal and t.tgrelid = any (distributed)
      and t.tgname not in ('add_key_actions', 'log_settings', 'call_person_left')
  );
  made text;
begin
  -- Citus has no foreign keys and triggers of a table that is on every node.
  execute (
    select string_agg(format('alter table %s drop constraint %I', c.conrelid::regclass, c.conname), ';')
    from pg_constraint c where c.contype = 'f' and c.conrelid = any (everywhere)
  );
  execute (
    select string_agg(format('drop trigger %I on %s', t.tgname, t.tgrelid::regclass), ';')
    from pg_trigger t where not t.tgisinternal and t.tgrelid = any (distributed || everywhere)
  );
  perform create_reference_table(t) from unnest(everywhere) as t;
  perform create_distributed_table('audit_log.organizations', 'id', colocate_with => 'none');
  perform create_distributed_table(t, 'organization_id', colocate_with => 'audit_log.organizations')
  from unnest(distributed[2:]) as t;
  -- The coordinator's own tables still have what was moved. Nothing reads it there.
  perform truncate_local_data_after_distributing_table(t) from unnest(distributed || everywhere) as t;
  foreach made in array triggers loop
    execute made;
  end loop;
  perform create_distributed_function(p.oid) from pg_proc p
  where p.pronamespace in ('audit_log'::regnamespace, 'audit_log_private'::regnamespace) order by p.oid;
  perform create_distributed_function(
    p.oid::regprocedure, 'organization_id', colocate_with => 'audit_log.organizations', force_delegation => true
  ) from pg_proc p where p.pronamespace = 'audit_log_here'::regnamespace;
end $$;

insert into audit_log_private.cursor_keys (system_identifier)
select n.result::bigint from run_command_on_all_nodes('select (pg_control_system()).system_identifier') n
on conflict do nothing;
commit;
