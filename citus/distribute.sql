-- Spreads the organizations of an installed project over several nodes, with Citus. Run once, on the coordinator, as
-- a superuser, while nobody writes; docs/scaling.md has the steps before and after. All of it happens, or nothing.
--
-- Every table of an organization's rows is distributed by the organization, in one group. So all rows of an
-- organization lie on one node. The hashes of tokens are on every node. So any node can be asked: it finds the organization of a token,
-- and hands the request over whole to the node that has it. There, all statements see one snapshot. (If they went to
-- the node one by one, each would see another.)
--
-- The migrations do not know that there may be nodes: this file replaces the functions that must.

begin;
set local client_min_messages = warning;

do $$
begin
  if not exists (select from pg_extension where extname = 'citus') then
    raise exception 'this Postgres has no Citus: nothing was changed. A single Postgres does not need this file' using errcode = 'feature_not_supported';
  elsif exists (select from pg_dist_partition where logicalrelid = 'audit_log.audit_entries'::regclass) then
    raise exception 'this project is distributed already: nothing was changed' using errcode = 'object_not_in_prerequisite_state';
  elsif (select count(*) filter (where groupid = 0) = 0 or count(*) < 2 from pg_dist_node where isactive) then
    raise exception 'Citus knows no other node: nothing was changed. First select citus_set_coordinator_host(…), citus_add_node(…)' using errcode = 'object_not_in_prerequisite_state';
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
    raise exception 'a node gives other roles privileges on new tables or functions: nothing was changed. Run citus/node.sql on each node before it joins' using errcode = 'object_not_in_prerequisite_state';
  end if;
end $$;

-- Works on this node alone at first. A transaction that creates objects on several nodes with several roles sees some
-- of them only after its commit.
select set_config('role', relowner::regrole::text, true) from pg_class where oid = 'audit_log.audit_entries'::regclass;
set local citus.enable_ddl_propagation = off;

-- 1. Nodes. A cursor belongs to the node that gave it out. Another node refuses it, and its reader starts again.

alter table audit_log_private.cursor_keys drop column is_only;
alter table audit_log_private.cursor_keys add primary key (system_identifier);

-- 2. Functions that the migrations made are replaced whole, with a part of their text changed.

create function pg_temp.rewrite(function regprocedure, old text, new text) returns void
language plpgsql volatile as $$
declare
  definition constant text := pg_get_functiondef(function);
begin
  if position(old in definition) = 0 then
    raise exception '% does not contain "%": this file and the migrations are of different versions', function, old;
  end if;
  execute replace(definition, old, new);
end $$;

-- What reads or writes in several statements is handed over as a whole to the node that has the organization. Citus
-- hands a call to another node only if it is in a FROM clause and its arguments are constants. The organization must
-- not be null.
create temporary table handed_over as
select * from (
  values
    ('audit_log.public_audit_log'::regproc, 'audit_log_private.answer_request'::regproc),
    ('audit_log_private.read_audit_log', 'audit_log_private.read_page'),
    ('audit_log_private.read_audit_log', 'audit_log_private.read_feed'),
    ('audit_log_private.list_seals', 'audit_log_private.read_seals'),
    ('audit_log_private.run_upkeep', 'audit_log_private.retain_and_compact'),
    ('audit_log_private.run_upkeep', 'audit_log_private.seal_and_compare')
) as calls (caller, callee);

do $$
declare
  call record;
begin
  for call in select h.caller, h.callee, h.callee || '_at_home' as wrapper, p.* from handed_over h join pg_proc p on p.oid = h.callee
  loop
    execute format(
      'create function %s(%s) returns %s language plpgsql volatile set search_path = pg_catalog, pg_temp as %L',
      call.wrapper, pg_get_function_arguments(call.oid), pg_get_function_result(call.oid),
      format(
        $function$
declare
  answer %s;
begin
  execute format('select a.* from %s(%s) as a', %s) into answer;
  return answer;
end
$function$,
        pg_get_function_result(call.oid), call.callee,
        (select string_agg('%L', ', ') from unnest(call.proargnames)),
        $text$coalesce(organization_id, '00000000-0000-0000-0000-000000000000')$text$ || coalesce(
          (select string_agg(', ' || name, '' order by n) from unnest(call.proargnames) with ordinality as a (name, n) where n > 1), ''
        )
      )
    );
    execute format('comment on function %s is %L', call.wrapper, format('Runs %s, as a whole, on the node that has the organization.', call.callee));
    perform pg_temp.rewrite(call.caller::oid::regprocedure, call.callee || '(', call.wrapper || '(');
  end loop;
end $$;
-- They were stable, and now call what is volatile.
alter function audit_log_private.list_seals volatile;
alter function audit_log.list_seals volatile;

-- Citus refuses SQL functions that read distributed tables, so these become plpgsql. Functions that read tables also
-- plan each call anew, because Citus must know the organization.
do $$
declare
  change text;
begin
  for change in
    select format(
      'create or replace function %s(%s) returns %s language plpgsql stable set search_path = pg_catalog, pg_temp as %L',
      p.oid::regproc, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid),
      replace(pg_get_function_sqlbody(p.oid), 'BEGIN ATOMIC', 'BEGIN RETURN QUERY')
    )
    from pg_proc p
    where p.pronamespace = 'audit_log_private'::regnamespace and p.proname in ('count_periods', 'next_in_batch')
    union all
    select format('alter function %s reset plan_cache_mode', p.oid::regprocedure) from pg_proc p
    where p.pronamespace = 'audit_log_private'::regnamespace and 'plan_cache_mode=force_generic_plan' = any (p.proconfig)
  loop
    execute change;
  end loop;
end $$;

-- Limits a transaction to one connection for each node. With several, it may wait for itself.
alter function audit_log_private.run_upkeep set citus.max_adaptive_executor_pool_size = 1;

-- 3. Each node counts its transactions itself. So an organization begins a new epoch when it moves to another node: the
-- entries that moved are then older than the entries written there.

create table audit_log_private.homes (
  organization_id uuid primary key references audit_log.organizations on delete cascade,
  system_identifier bigint not null,
  epoch bigint not null
);
comment on table audit_log_private.homes is 'Which node last wrote an organization''s entries, and its epoch there.';
alter table audit_log_private.homes enable row level security;

create function audit_log_private.log_snapshot(organization_id uuid) returns pg_snapshot
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  home audit_log_private.homes;
begin
  select h.* into home from audit_log_private.homes h where h.organization_id = log_snapshot.organization_id;
  if home.system_identifier = (pg_control_system()).system_identifier then
    return audit_log_private.log_snapshot(home.epoch);
  end if;
  -- This node has not written yet. All entries are older than the first transaction that will write one.
  return format('%1$s:%1$s:', ((coalesce(home.epoch, audit_log_private.log_epoch()) + 1) << 40) + 3);
end $$;
comment on function audit_log_private.log_snapshot(uuid) is 'The present snapshot, in the epoch of an organization.';
do $$
begin
  perform pg_temp.rewrite('audit_log_private.log_snapshot()', 'log_snapshot()', 'log_snapshot(epoch bigint)');
  perform pg_temp.rewrite('audit_log_private.log_snapshot(bigint)', 'audit_log_private.log_epoch()', 'epoch');
  perform pg_temp.rewrite(f::oid::regprocedure, 'audit_log_private.log_snapshot()', 'audit_log_private.log_snapshot(organization_id)')
  from unnest(array['audit_log_private.read_feed', 'audit_log_private.examine_day']::regproc[]) as f;
end $$;
drop function audit_log_private.log_snapshot();

create function audit_log_private.number_entry() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  -- The organization and its epoch, looked up once for each transaction.
  home text[] := string_to_array(current_setting('audit_log.home', true), ' ');
  here constant bigint := (pg_control_system()).system_identifier;
  epoch bigint;
begin
  if home[1] is distinct from new.organization_id::text then
    select h.epoch into epoch
    from audit_log_private.homes h
    where h.organization_id = new.organization_id and h.system_identifier = here;
    if not found then
      insert into audit_log_private.homes as h (organization_id, system_identifier, epoch)
      values (new.organization_id, here, audit_log_private.log_epoch() + 1)
      on conflict on constraint homes_pkey do update
      set system_identifier = excluded.system_identifier,
        epoch = h.epoch + (h.system_identifier <> excluded.system_identifier)::integer
      returning h.epoch into epoch;
    end if;
    home := array[new.organization_id::text, epoch::text];
    perform set_config('audit_log.home', array_to_string(home, ' '), true);
  end if;
  new.transaction_id := ((home[2]::bigint << 40) + pg_current_xact_id()::text::bigint)::text::xid8;
  return new;
end $$;
comment on function audit_log_private.number_entry is 'Gives an entry its transaction''s number, on the node where it lies.';
create trigger number_entry before insert on audit_log.audit_entries
  for each row execute function audit_log_private.number_entry();
-- Drops the default, because Citus evaluates it on the node that receives the statement, not on the node of the entry.
alter table audit_log.audit_entries alter column transaction_id drop default;

create or replace function audit_log_private.adopt_restored_log() returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  raise exception 'on several nodes there is nothing to adopt: restore the base backups of all of them to one restore point' using errcode = 'feature_not_supported';
end $$;

-- 4. The catalogue of actions will be on every node, and have no triggers. So privileges keep its owner from renaming
-- and deleting actions, and from changing what they require. A trigger on a shard cannot add the actions of API keys to
-- the catalogue. So this adds them now, with an organization that it deletes at once.

insert into audit_log.organizations (id, name, logs_key_events) values ('00000000-0000-0000-0000-000000000000', 'None', true);
delete from audit_log.organizations where id = '00000000-0000-0000-0000-000000000000';
drop trigger add_key_actions on audit_log.organizations;
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
  select string_agg(o.drop, '; '), array_agg(o.creation order by o.is_trigger) filter (where o.creation <> '') into drops, creations
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
  perform create_distributed_table(t, 'organization_id', colocate_with => first::text) from unnest(distributed[2:]) as t;
  perform create_reference_table(t) from unnest(everywhere) as t;
  -- The coordinator's own tables still have what was moved. Nothing reads it there.
  perform truncate_local_data_after_distributing_table(t) from unnest(distributed || everywhere) as t;
  -- Citus runs only one such statement at a time.
  foreach creation in array creations loop
    execute creation;
  end loop;
  perform create_distributed_function(p.oid) from (
    select oid from pg_proc
    where pronamespace in ('audit_log'::regnamespace, 'audit_log_private'::regnamespace)
      and oid not in (select h.callee from handed_over h)
    order by oid
  ) as p;
  perform create_distributed_function(
    h.callee::oid::regprocedure, 'organization_id', colocate_with => first::text, force_delegation => true
  ) from handed_over h;
end $$;

-- Each node has keys of its own for cursors.
insert into audit_log_private.cursor_keys (system_identifier)
select n.result::bigint from run_command_on_all_nodes('select (pg_control_system()).system_identifier') n
on conflict do nothing;

commit;
