-- Spreads the organizations of an installed project over several nodes, with Citus. Run once, on the coordinator, as
-- a superuser, while nobody writes; docs/scaling.md has the steps before and after. All of it happens, or nothing.
--
-- Every table of an organization's rows is distributed by the organization, in one group. So all rows of an
-- organization lie on one node. The hashes of tokens are on every node. So any node can be asked: it finds the
-- organization of a token, and hands the request over whole to the node that has it. There, all statements see one
-- snapshot. (If they went to the node one by one, each would see another.)
--
-- The migrations do not know that there may be nodes. This file puts whole functions in the place of theirs.

begin;
set local client_min_messages = warning;

do $$
begin
  if not exists (select from pg_extension where extname = 'citus') then
    raise exception 'this Postgres has no Citus: nothing was changed. A single Postgres does not need this file'
      using errcode = 'feature_not_supported';
  elsif exists (select from pg_dist_partition where logicalrelid = 'audit_log.audit_entries'::regclass) then
    raise exception 'this project is distributed already: nothing was changed'
      using errcode = 'object_not_in_prerequisite_state';
  elsif (select count(*) filter (where groupid = 0) = 0 or count(*) < 2 from pg_dist_node where isactive) then
    raise exception 'Citus knows no other node: nothing was changed'
      using errcode = 'object_not_in_prerequisite_state',
        hint = 'First select citus_set_coordinator_host(…), citus_add_node(…)';
  elsif exists (select from audit_log_private.logged_tables()) then
    raise exception 'log_table logs tables of the platform, which it cannot on several nodes: nothing was changed'
      using errcode = 'object_not_in_prerequisite_state', hint = 'First end it with audit_log_private.unlog_table(…)';
  elsif exists (select from audit_log_private.streams) then
    raise exception 'there are streams, which do not work on several nodes: nothing was changed'
      using errcode = 'object_not_in_prerequisite_state', hint = 'First let administrators delete them.';
  elsif not (select r.rolsuper from pg_roles r where r.rolname = current_user) then
    raise exception 'run this as a superuser: nothing was changed' using errcode = 'insufficient_privilege';
  end if;
  -- The defaults of both roles must give new tables and functions to nobody else. Each must have one for functions,
  -- because Postgres's own default lets everybody execute them.
  perform from run_command_on_all_nodes($node$
    select count(*) filter (where d.defaclobjtype = 'f') = 2
      and bool_and((select bool_and(g.grantee = d.defaclrole) from aclexplode(d.defaclacl) as g))
    from pg_default_acl d
    where d.defaclobjtype in ('r', 'f') and d.defaclnamespace = 0
      and d.defaclrole in ('postgres'::regrole, (select e.extowner from pg_extension e where e.extname = 'citus'))
  $node$) n
  where not n.success or n.result <> 't';
  if found then
    raise exception 'a node gives other roles privileges on new tables or functions: nothing was changed'
      using errcode = 'object_not_in_prerequisite_state',
        hint = 'Run dev/citus/node.sql on each node before it joins.';
  end if;
end $$;

-- Works on this node alone at first. A transaction that creates objects on several nodes with several roles sees some
-- of them only after its commit.
select set_config('role', relowner::regrole::text, true) from pg_class where oid = 'audit_log.audit_entries'::regclass;
set local citus.enable_ddl_propagation = off;

-- 1. Nodes. Each has keys of its own for cursors.

alter table audit_log_private.cursor_keys drop column is_only;
alter table audit_log_private.cursor_keys add primary key (system_identifier);

-- 2. What reads or writes in several statements is handed over, as a whole, to the node that has the organization. Its
-- function goes to another schema, and another function takes its place: plpgsql finds functions by name at each call.
-- So of read_page there are
--
--  - audit_log_private.read_page, which callers know. It may run on any node.
--  - audit_log_here.read_page_at_home, which Citus runs on the organization's node. Citus does so only if the call is
--    in a FROM clause and its arguments are constants. The organization must not be null.
--  - audit_log_here.read_page, the one that the migrations made.
--
-- The setting audit_log.organization says which organization a transaction works for on this node.

create schema audit_log_here;
comment on schema audit_log_here is 'What runs on the node that has the organization. Made by distribute.sql.';

create temporary table handed_over as
select unnest(array[
  'answer_request', 'read_page', 'read_feed', 'read_seals', 'delete_and_compact', 'seal_and_compare'
]) as name;

do $$
declare
  call record;
begin
  for call in
    select
      p.oid::regprocedure as made, p.proname as name, p.proname || '_at_home' as at_home,
      array_to_string(p.proargnames, ', ') as names,
      pg_get_function_arguments(p.oid) as arguments, pg_get_function_result(p.oid) as result,
      array_to_string(array_fill('%L'::text, array[p.pronargs]), ', ') as places,
      array_to_string(
        $text$coalesce(organization_id, '00000000-0000-0000-0000-000000000000')$text$::text || p.proargnames[2:], ', '
      ) as constants,
      case p.provolatile when 's' then 'stable' else 'volatile' end
        || ' set search_path = pg_catalog, pg_temp' as properties
    from pg_proc p
    where p.pronamespace = 'audit_log_private'::regnamespace and p.proname in (select h.name from handed_over h)
  loop
    execute format('alter function %s set schema audit_log_here', call.made);
    execute format(
      'create function audit_log_here.%I(%s) returns %s language plpgsql %s as %L',
      call.at_home, call.arguments, call.result, call.properties,
      format(
        $function$
begin
  perform set_config('audit_log.organization', organization_id::text, true);
  return audit_log_here.%I(%s);
end
$function$,
        call.name, call.names
      )
    );
    execute format(
      'comment on function audit_log_here.%I is %L', call.at_home,
      format('Runs %s on the node to which Citus hands this call over.', call.name)
    );
    execute format(
      'create function audit_log_private.%I(%s) returns %s language plpgsql %s as %L',
      call.name, call.arguments, call.result, call.properties,
      format(
        $function$
declare
  answer %s;
begin
  -- Called by a function that was handed over itself.
  if current_setting('audit_log.organization', true) = organization_id::text then
    return audit_log_here.%I(%s);
  end if;
  execute format('select a.* from audit_log_here.%I(%s) as a', %s) into answer;
  return answer;
end
$function$,
        call.result, call.name, call.names, call.at_home, call.places, call.constants
      )
    );
    execute format(
      'comment on function audit_log_private.%I is %L', call.name,
      format('Runs audit_log_here.%s, as a whole, on the node that has the organization.', call.name)
    );
  end loop;
end $$;

-- Citus refuses SQL functions that read distributed tables, so these are in plpgsql.

create or replace function audit_log_private.count_periods(
  organization_id uuid, actions text[], start_date date, end_date date, first_month date, end_month date
)
returns table (first_day date, last_day date, entries bigint)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return query
    select c.day, c.day, c.entries::bigint from audit_log_private.entry_counts c
    where c.organization_id = count_periods.organization_id and c.day between start_date and end_date
      and (first_month is null or c.day < first_month or c.day >= end_month)
      and (actions is null or c.action = any (actions));
  if first_month is not null then
    return query
      select m.month, (m.month + interval '1 month' - interval '1 day')::date, m.entries
      from (
        select s.month, s.entries from audit_log_private.monthly_entry_counts s
        where s.organization_id = count_periods.organization_id and s.month >= first_month and s.month < end_month
          and (actions is null or s.action = any (actions))
        union all
        -- What the sums of months do not have yet.
        select date_trunc('month', c.day::timestamp)::date, c.entries::bigint from audit_log_private.entry_counts c
        where c.organization_id = count_periods.organization_id and c.day >= first_month and c.day < end_month
          and c.writer_pid <> 0 and (actions is null or c.action = any (actions))
      ) as m;
  end if;
end $$;

create or replace function audit_log_private.scan(
  organization_id uuid, actions text[], person text, place audit_log_private.place, until timestamptz,
  skip bigint, most bigint
)
returns setof audit_log.audit_entries
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  if person is not null then
    return query
      select e.* from audit_log.audit_entries e
      where e.organization_id = scan.organization_id and lower(e.user_email) = person
        and (e.created_at, e.id) > (place.created_at, place.id) and e.created_at < until
        and (actions is null or e.action = any (actions))
      order by e.created_at, e.id limit most offset skip;
  elsif actions is null then
    return query
      select e.* from audit_log.audit_entries e
      where e.organization_id = scan.organization_id
        and (e.created_at, e.id) > (place.created_at, place.id) and e.created_at < until
      order by e.created_at, e.id limit most offset skip;
  else
    return query
      select e.* from unnest(actions) as wanted (action)
      cross join lateral (
        select e.* from audit_log.audit_entries e
        where e.organization_id = scan.organization_id and e.action = wanted.action
          and (e.created_at, e.id) > (place.created_at, place.id) and e.created_at < until
        order by e.created_at, e.id limit skip + most
      ) as e
      order by e.created_at, e.id limit most offset skip;
  end if;
end $$;

create or replace function audit_log_private.next_in_batch(
  organization_id uuid, query audit_log.page_query, cursor audit_log_private.feed_cursor, place audit_log_private.place,
  late_transactions xid8[], most integer
)
returns setof audit_log.audit_entries
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  if cursor.seen is null then
    return query
      select e.* from audit_log_private.scan(
        organization_id, case when query.user_email is null then query.actions end, query.user_email, place,
        query.until, 0, most
      ) as e;
  elsif late_transactions is not null then
    return query
      select e.* from (select x as transaction_id from unnest(late_transactions) as x order by x) as late
      cross join lateral (
        select e.* from audit_log.audit_entries e
        where e.organization_id = next_in_batch.organization_id and e.transaction_id = late.transaction_id
          and (e.created_at, e.id) > (
            case when late.transaction_id = cursor.transaction_id then place.created_at else '-infinity' end,
            case
              when late.transaction_id = cursor.transaction_id then place.id
              else '00000000-0000-0000-0000-000000000000'
            end
          )
        order by e.created_at, e.id limit most
      ) as e
      limit most;
  else
    return query
      select e.* from audit_log.audit_entries e
      where e.organization_id = next_in_batch.organization_id
        and (e.transaction_id, e.created_at, e.id) > (cursor.transaction_id, place.created_at, place.id)
        and e.transaction_id < pg_snapshot_xmax(cursor.bound)
      order by e.transaction_id, e.created_at, e.id limit most;
  end if;
end $$;

-- Citus refuses an expression that reads a distributed table and calls a function that reads another, and may run a
-- function of a query on another node, where nobody is signed in. So these take one step after the other.

create or replace function audit_log_private.list_organizations() returns json
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  is_valid constant boolean := audit_log_private.is_valid_session() is true;
  mine record;
  shown audit_log.organizations;
  items json[] := '{}';
begin
  perform audit_log_private.refuse_conditions();
  for mine in
    select m.* from audit_log_private.my_organizations() m
    where (audit_log_private.caller()).id is not null
  loop
    select o.* into shown from audit_log.organizations o where o.id = mine.id and o.leaving_at is null;
    continue when not found;
    items := items || json_build_object(
      'id', mine.id, 'organization_id', coalesce(shown.external_id, shown.id::text), 'name', shown.name,
      'role', mine.role,
      'is_admin', mine.role is not distinct from 'admin' and is_valid,
      'may_read', coalesce(mine.role in ('admin', 'auditor'), false) and is_valid
    );
  end loop;
  return (select coalesce(json_agg(i order by i ->> 'name', i ->> 'id'), '[]') from unnest(items) as i);
end $$;

-- Citus must know the organization, so functions that read plan each call anew.
do $$
declare
  made regprocedure;
begin
  for made in
    select p.oid from pg_proc p
    where p.pronamespace in ('audit_log_private'::regnamespace, 'audit_log_here'::regnamespace)
      and 'plan_cache_mode=force_generic_plan' = any (p.proconfig)
  loop
    execute format('alter function %s reset plan_cache_mode', made);
  end loop;
end $$;

-- Limits a transaction to one connection for each node. With several, it may wait for itself.
alter function audit_log_private.run_upkeep set citus.max_adaptive_executor_pool_size = 1;

-- 3. Each node counts its transactions itself. So the log begins a new epoch, in which all entries that are there are
-- older than those that the nodes will write. And an organization stays on its node: on another one, the numbers of its
-- entries would mean other moments.

select audit_log_private.adopt_restored_log();

create table audit_log_private.homes (
  organization_id uuid primary key references audit_log.organizations on delete cascade,
  system_identifier bigint not null
);
comment on table audit_log_private.homes is 'The node that writes an organization''s entries.';
alter table audit_log_private.homes enable row level security;

create function audit_log_here.number_entry() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  here constant bigint := (pg_control_system()).system_identifier;
  home bigint;
begin
  -- Looked up once for each transaction.
  if current_setting('audit_log.home', true) is distinct from new.organization_id::text then
    select h.system_identifier into home
    from audit_log_private.homes h where h.organization_id = new.organization_id;
    if not found then
      insert into audit_log_private.homes as h (organization_id, system_identifier)
      values (new.organization_id, here)
      on conflict on constraint homes_pkey do update set system_identifier = h.system_identifier
      returning h.system_identifier into home;
    end if;
    if home <> here then
      raise exception 'the organization % was moved to another node, where its entries have no order',
        new.organization_id
        using errcode = 'object_not_in_prerequisite_state', hint = 'Move its shard back.';
    end if;
    perform set_config('audit_log.home', new.organization_id::text, true);
  end if;
  new.transaction_id := audit_log_private.transaction_number();
  return new;
end $$;
comment on function audit_log_here.number_entry is
  'Gives an entry its transaction''s number, on the node where it lies.';
create trigger number_entry before insert on audit_log.audit_entries
  for each row execute function audit_log_here.number_entry();
-- Drops the default, because Citus evaluates it on the node that receives the statement, not on the node of the entry.
alter table audit_log.audit_entries alter column transaction_id drop default;

create or replace function audit_log_private.adopt_restored_log() returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  raise exception
    'on several nodes there is nothing to adopt: restore the base backups of all of them to one restore point'
    using errcode = 'feature_not_supported';
end $$;

-- Triggers of log_table insert what a statement has changed, in one statement. Citus cannot send that to another node.
-- This is the first function that log_table calls.
create or replace function audit_log_private.selected_columns(
  logged regclass, list text,
  out names text[], out types regtype[], out used text[], out is_fixed boolean, out columns text[]
)
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  raise exception 'log_table(%) does not work on several nodes: there the platform writes its entries itself', logged
    using errcode = 'feature_not_supported';
end $$;

-- A stream reads the log and its own place in one snapshot, which several nodes do not have.
create or replace function audit_log_private.create_stream(organization_id uuid, stream jsonb) returns json
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform audit_log_private.require_access(organization_id, for_admins => true);
  raise exception 'streams do not work on several nodes: fetch the log with an API key'
    using errcode = 'feature_not_supported';
end $$;

create or replace function audit_log_private.list_streams(organization_id uuid) returns json
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform audit_log_private.require_access(organization_id, for_admins => false);
  return '[]';
end $$;

-- 4. The catalogue of actions will be on every node, and have no triggers. So privileges keep its owner from renaming
-- and deleting actions, and from changing what they require. A trigger on a shard cannot add the actions of API keys to
-- the catalogue. So this adds them now, with an organization that it deletes at once.

insert into audit_log.organizations (id, name, logs_key_events)
values ('00000000-0000-0000-0000-000000000000', 'None', true);
delete from audit_log.organizations where id = '00000000-0000-0000-0000-000000000000';
drop trigger add_key_actions on audit_log.organizations;
-- Nor can it write an entry.
drop trigger log_settings on audit_log.organizations;
revoke update, delete, truncate on audit_log.actions from current_user;
grant update (description, deprecated_at) on audit_log.actions to current_user;

-- 5. The tables, then every function on every node.

-- Citus keeps a key unique only if it includes the organization.
alter table audit_log.organizations drop constraint organizations_external_id_key;

set local role none;
set local citus.enable_ddl_propagation = on;
set local citus.enable_unsafe_triggers = on;
set local citus.multi_shard_modify_mode = 'sequential';

do $$
declare
  first constant regclass := 'audit_log.organizations';
  everywhere constant regclass[] := array[
    'audit_log.actions', 'audit_log_private.api_key_hashes', 'audit_log_private.cursor_keys',
    'audit_log_private.logging_failures'
  ];
  distributed constant regclass[] := array(
    select c.oid from pg_class c
    where c.relnamespace in ('audit_log'::regnamespace, 'audit_log_private'::regnamespace) and c.relkind = 'r'
      and (c.oid = first or exists (
        select from pg_attribute a where a.attrelid = c.oid and a.attname = 'organization_id' and not a.attisdropped
      ))
      and c.oid <> all (everywhere)
    order by c.oid <> first, c.oid
  );
  drops text;
  creations text[];
  creation text;
begin
  -- The data is moved without foreign keys and triggers, so that no trigger changes it.
  select string_agg(o.drop, '; '), array_agg(o.creation order by o.is_trigger) filter (where o.creation <> '')
  into drops, creations
  from (
    select
      false as is_trigger,
      format('alter table %s drop constraint %I', c.conrelid::regclass, c.conname) as drop,
      -- Citus supports no foreign key from a table that is on every node, or to one that is not distributed. These are
      -- dropped for good.
      case when c.conrelid = any (distributed) and c.confrelid = any (distributed) then
        format('alter table %s add constraint %I %s', c.conrelid::regclass, c.conname, pg_get_constraintdef(c.oid))
      end as creation
    from pg_constraint c
    where c.contype = 'f' and c.conrelid = any (distributed || everywhere)
    union all
    -- Citus has no triggers on a table that is on every node.
    select true, format('drop trigger %I on %s', t.tgname, t.tgrelid::regclass),
      case when t.tgrelid = any (distributed) then pg_get_triggerdef(t.oid) end
    from pg_trigger t
    where not t.tgisinternal and t.tgrelid = any (distributed || everywhere)
  ) as o;
  execute drops;
  perform create_distributed_table(first, 'id', colocate_with => 'none');
  perform create_distributed_table(t, 'organization_id', colocate_with => first::text)
  from unnest(distributed[2:]) as t;
  perform create_reference_table(t) from unnest(everywhere) as t;
  -- The coordinator's own tables still have what was moved. Nothing reads it there.
  perform truncate_local_data_after_distributing_table(t) from unnest(distributed || everywhere) as t;
  -- Citus runs only one such statement at a time.
  foreach creation in array creations loop
    execute creation;
  end loop;
  perform create_distributed_function(p.oid) from (
    select oid from pg_proc
    where pronamespace in ('audit_log'::regnamespace, 'audit_log_private'::regnamespace, 'audit_log_here'::regnamespace)
      and proname not in (select h.name || '_at_home' from handed_over h)
    order by oid
  ) as p;
  perform create_distributed_function(
    p.oid::regprocedure, 'organization_id', colocate_with => first::text, force_delegation => true
  )
  from handed_over h join pg_proc p on p.proname = h.name || '_at_home'
  where p.pronamespace = 'audit_log_here'::regnamespace;
end $$;

-- The keys of all nodes.
insert into audit_log_private.cursor_keys (system_identifier)
select n.result::bigint from run_command_on_all_nodes('select (pg_control_system()).system_identifier') n
on conflict do nothing;

commit;
