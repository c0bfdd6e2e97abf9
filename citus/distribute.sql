-- Grows an installed project past one machine, with Citus: organizations over nodes, each with all its
-- rows on one of them. Run once, on the coordinator, as a superuser, while nobody writes;
-- docs/scaling.md has the steps before and after. All of it happens, or nothing.
--
-- One organization, one place: every table that begins with the organization is distributed by it, in
-- one group, so its rows of all tables lie together. The hashes of tokens lead there: they are on every
-- node. So any node can be asked; it finds the organization, and hands the request over whole to the node
-- that has it, where all statements see one snapshot. (One by one, they would each see one of their own.)
--
-- Transaction numbers, by which the feed and the seals know what has been seen, are a node's own. So a
-- number here is the transaction's plus 2^40 for each node that the organization has been on: after a
-- move, all that came along is older than all that is written then.

\set ON_ERROR_STOP on
begin;
set local client_min_messages = warning;

do $$
begin
  if not exists (select from pg_extension where extname = 'citus') then
    raise exception 'this Postgres has no Citus: nothing was changed. One Postgres needs nothing of this file'
      using errcode = 'feature_not_supported';
  end if;
  if not exists (select from pg_namespace where nspname = 'private')
    or to_regclass('public.audit_entries') is null
  then
    raise exception 'the migrations have not been applied here: nothing was changed'
      using errcode = 'object_not_in_prerequisite_state';
  end if;
  if exists (select from pg_dist_partition where logicalrelid = 'public.audit_entries'::regclass) then
    raise exception 'this project is distributed already: nothing was changed. To use a new node: select private.admit_nodes()'
      using errcode = 'object_not_in_prerequisite_state';
  end if;
  if not exists (select from pg_dist_node where groupid = 0)
    or not exists (select from pg_dist_node where groupid <> 0 and isactive)
  then
    raise exception 'Citus knows no other node: nothing was changed. First select citus_set_coordinator_host(…), citus_add_node(…)'
      using errcode = 'object_not_in_prerequisite_state';
  end if;
  if not (select r.rolsuper from pg_roles r where r.rolname = current_user) then
    raise exception 'run this as a superuser: nothing was changed' using errcode = 'insufficient_privilege';
  end if;
end
$$;

-- Here first: what is made on several nodes by several roles would not see itself before the end.
select set_config('role', (
  select tableowner::text from pg_tables where schemaname = 'public' and tablename = 'audit_entries'
), true);
set local citus.enable_ddl_propagation = off;

create function private.require_prepared_nodes() returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
  perform from run_command_on_all_nodes($node$
    select not exists (
      select from pg_default_acl d cross join aclexplode(d.defaclacl) as g
      where d.defaclobjtype in ('r', 'f') and g.grantee <> d.defaclrole
        and d.defaclrole in ('postgres'::regrole, (select e.extowner from pg_extension e where e.extname = 'citus'))
    ) and 2 = (
      select count(*) from pg_default_acl d
      where d.defaclobjtype = 'f' and d.defaclnamespace = 0
        and d.defaclrole in ('postgres'::regrole, (select e.extowner from pg_extension e where e.extname = 'citus'))
    )
  $node$) n
  where not n.success or n.result <> 't';
  if found then
    raise exception 'a node gives privileges to whoever asks: run citus/node.sql on each, before it joins. One that has joined without: take it out and start again with an empty database'
      using errcode = 'object_not_in_prerequisite_state';
  end if;
end
$$;
comment on function private.require_prepared_nodes is 'Raises 55000 if a node has not been prepared by citus/node.sql.';
revoke execute on function private.require_prepared_nodes from public, anon, authenticated, service_role;
select private.require_prepared_nodes();

create function pg_temp.rewrite(function regproc, old text, new text) returns void
language plpgsql
as $$
declare
  definition constant text := pg_get_functiondef(function);
begin
  if array_length(string_to_array(definition, old), 1) <> 2 then
    raise exception '% does not have "%" once: this file belongs to another version of the migrations. Nothing was changed', function, old;
  end if;
  execute replace(definition, old, new);
end
$$;

-- 1. Handing over. Functions that read tables plan each call anew: Citus must know the organization.

do $$
declare
  function record;
begin
  for function in
    select p.oid::regprocedure as name
    from pg_proc p
    where p.pronamespace in ('public'::regnamespace, 'private'::regnamespace)
      and exists (select from unnest(p.proconfig) as setting where setting = 'plan_cache_mode=force_generic_plan')
  loop
    execute format('alter function %s reset plan_cache_mode', function.name);
  end loop;
end
$$;

create function private.at_home(organization_id uuid, statement text) returns json
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
  answer json;
begin
  execute statement into answer;
  return answer;
end
$$;
comment on function private.at_home is 'What a statement gives, carried out on the node that has the organization.';
revoke execute on function private.at_home from public, anon, authenticated, service_role;

create function private.hand_over(organization_id uuid, statement text) returns json
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
  answer json;
begin
  -- Citus hands over only a call in a FROM, with constants, of which the organization must not be null.
  execute format(
    'select a.answer from private.at_home(%L, %L) as a (answer)',
    coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), statement
  ) into answer;
  return answer;
end
$$;
comment on function private.hand_over is 'Has at_home carry a statement out: all of it there, and with one snapshot if it is a call of a stable function.';
revoke execute on function private.hand_over from public, anon, authenticated, service_role;

create function private.answer_request_at_home(
  organization_id uuid,
  api_key_id uuid,
  start_date date,
  end_date date,
  action public.audit_action,
  page_limit integer,
  page_offset bigint,
  newest_first boolean,
  after text,
  of_seals boolean,
  client_address inet
) returns json
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
  return private.hand_over(organization_id, format(
    'select private.answer_request(%L, %L, %L, %L, %L, %L, %L, %L, %L, %L, %L)',
    organization_id, api_key_id, start_date, end_date, action, page_limit, page_offset, newest_first, after,
    of_seals, client_address
  ));
end
$$;
comment on function private.answer_request_at_home is 'answer_request, carried out where the organization is.';
revoke execute on function private.answer_request_at_home from public, anon, authenticated, service_role;
grant execute on function private.answer_request_at_home to service_role;
select pg_temp.rewrite('public.public_audit_log', 'private.answer_request(', 'private.answer_request_at_home(');

create function private.read_entries_at_home(
  organization_id uuid,
  start_date date,
  end_date date,
  action public.audit_action,
  page_limit integer,
  page_offset bigint,
  newest_first boolean,
  after text,
  out page json,
  out entries integer
)
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
  answer constant json := private.hand_over(organization_id, format(
    'select to_json(r) from private.read_entries(%L, %L, %L, %L, %L, %L, %L, %L) as r',
    organization_id, start_date, end_date, action, page_limit, page_offset, newest_first, after
  ));
begin
  entries := answer ->> 'entries';
  if entries is not null then
    page := answer -> 'page';
  end if;
end
$$;
comment on function private.read_entries_at_home is 'read_entries, carried out where the organization is.';
revoke execute on function private.read_entries_at_home from public, anon, authenticated, service_role;
select pg_temp.rewrite('private.read_audit_log', 'private.read_entries(', 'private.read_entries_at_home(');

create function private.read_seals_at_home(
  organization_id uuid,
  start_date date,
  end_date date,
  page_limit integer,
  page_offset bigint
) returns json
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
  return private.hand_over(organization_id, format(
    'select private.read_seals(%L, %L, %L, %L, %L)', organization_id, start_date, end_date, page_limit, page_offset
  ));
end
$$;
comment on function private.read_seals_at_home is 'read_seals, carried out where the organization is.';
revoke execute on function private.read_seals_at_home from public, anon, authenticated, service_role;
alter function private.list_seals volatile;
alter function public.list_seals volatile;
select pg_temp.rewrite('private.list_seals', 'private.read_seals(', 'private.read_seals_at_home(');

-- 2. Transaction numbers.

create table private.homes (
  organization_id uuid primary key references public.organizations on delete cascade,
  system_identifier bigint not null,
  epoch bigint not null
);
comment on table private.homes is 'Which node last wrote an organization''s entries, and how many nodes have.';
comment on column private.homes.epoch is 'Times 2^40, what is added to this node''s transaction numbers.';
alter table private.homes enable row level security;
revoke all on private.homes from public, anon, authenticated, service_role;

create function private.home_epoch(organization_id uuid) returns bigint
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
declare
  here constant bigint := (pg_control_system()).system_identifier;
begin
  return coalesce((
    select h.epoch + (h.system_identifier <> here)::integer
    from private.homes h
    where h.organization_id = home_epoch.organization_id
  ), 1);
end
$$;
comment on function private.home_epoch is 'How many nodes have written an organization''s entries, this one included, whether it already has or not.';
revoke execute on function private.home_epoch from public, anon, authenticated, service_role;

create function private.settle(organization_id uuid) returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
  here constant bigint := (pg_control_system()).system_identifier;
  epoch bigint;
begin
  select h.epoch into epoch
  from private.homes h
  where h.organization_id = settle.organization_id and h.system_identifier = here;
  if not found then
    insert into private.homes as h (organization_id, system_identifier, epoch)
    values (settle.organization_id, here, 1)
    on conflict on constraint homes_pkey do update
    set system_identifier = excluded.system_identifier, epoch = h.epoch + 1
    where h.system_identifier <> excluded.system_identifier;
    select h.epoch into strict epoch from private.homes h where h.organization_id = settle.organization_id;
  end if;
  return epoch;
end
$$;
comment on function private.settle is 'home_epoch, and keeps it: before anything is written that has a transaction number in it.';
revoke execute on function private.settle from public, anon, authenticated, service_role;

create function private.home_snapshot(organization_id uuid) returns pg_snapshot
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
declare
  present constant pg_snapshot := private.present_snapshot();
  base constant bigint := private.home_epoch(organization_id) << 40;
begin
  return format(
    '%s:%s:%s',
    base + pg_snapshot_xmin(present)::text::bigint,
    base + pg_snapshot_xmax(present)::text::bigint,
    (select string_agg((base + x::text::bigint)::text, ',' order by x) from pg_snapshot_xip(present) as x)
  );
end
$$;
comment on function private.home_snapshot is 'present_snapshot, in an organization''s numbers.';
revoke execute on function private.home_snapshot from public, anon, authenticated, service_role;
select pg_temp.rewrite('private.read_feed', 'private.present_snapshot()', 'private.home_snapshot(organization_id)');
select pg_temp.rewrite('private.examine_day', 'pg_current_snapshot()', 'private.home_snapshot(organization_id)');
select pg_temp.rewrite(
  'private.seal_day', 'found_now := private.examine_day(',
  'perform private.settle(organization_id); found_now := private.examine_day('
);

-- Citus must see the organization among the values.
select pg_temp.rewrite(
  'private.seal_day', 'values (next.*)',
  (
    select format('values (%s)', string_agg('next.' || a.attname, ', ' order by a.attnum))
    from pg_attribute a
    where a.attrelid = 'private.seals'::regclass and a.attnum > 0 and not a.attisdropped
  )
);

create function private.number_entry() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  -- Looked up once for each organization and transaction.
  home text := current_setting('public_audit_log.home', true);
begin
  if home is null or split_part(home, ' ', 1) <> new.organization_id::text then
    home := concat_ws(' ', new.organization_id, private.settle(new.organization_id));
    perform set_config('public_audit_log.home', home, true);
  end if;
  new.transaction_id := ((split_part(home, ' ', 2)::bigint << 40) + pg_current_xact_id()::text::bigint)::text::xid8;
  return new;
end
$$;
comment on function private.number_entry is 'Gives an entry its transaction''s number, on the node where it is written.';
revoke execute on function private.number_entry from public, anon, authenticated, service_role;
create trigger number_entry before insert on public.audit_entries
  for each row execute function private.number_entry();
-- The trigger number_entry gives it, where the row lies; a default is evaluated where the statement arrives.
alter table public.audit_entries alter column transaction_id drop default;

-- A cursor belongs to the node that gave it out: elsewhere it is none, and its reader starts again.
alter table private.feed_keys drop column is_only;
alter table private.feed_keys add primary key (system_identifier);

create function private.admit_nodes() returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
  node record;
  admitted bigint := 0;
begin
  perform private.require_prepared_nodes();
  for node in
    select n.success, n.result
    from run_command_on_all_nodes('select (pg_control_system()).system_identifier') n
  loop
    if not node.success then
      raise exception 'a node does not answer: %', node.result using errcode = 'object_not_in_prerequisite_state';
    end if;
    perform from private.feed_keys k where k.system_identifier = node.result::bigint;
    if not found then
      insert into private.feed_keys (encryption_key, authentication_key, system_identifier)
      values (extensions.gen_random_bytes(32), extensions.gen_random_bytes(32), node.result::bigint);
      admitted := admitted + 1;
    end if;
  end loop;
  return admitted;
end
$$;
comment on function private.admit_nodes is 'After each citus_add_node, before a Data API is put in front of the node: makes keys of cursors for nodes that have none; how many. Raises 55000 if one was not prepared by citus/node.sql.';
revoke execute on function private.admit_nodes from public, anon, authenticated, service_role;

create or replace function private.adopt_restored_log() returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception 'on several nodes there is nothing to adopt: restore the base backups of all of them to one restore point'
    using errcode = 'feature_not_supported';
end
$$;

-- 3. The upkeep, one organization after the other, each on the node that has it.

create function private.upkeep_at_home(organization_id uuid) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
  now constant timestamptz := clock_timestamp();
  today constant date := now at time zone 'UTC';
  tonight constant integer := (today - '2000-01-01'::date) % 30;
  next record;
  parts integer[];
  counted record;
  hours integer[];
  month date;
  work bigint := 0;
begin
  for next in
    select c.day, c.action
    from private.entry_counts c
    where c.organization_id = upkeep_at_home.organization_id and c.writer_pid <> 0 and c.day < today
    group by c.day, c.action
    order by c.day, c.action
    limit 500
  loop
    -- Those that writers hold are left for the next run, and not waited for.
    select array_agg(l.writer_pid) into parts
    from (
      select c.writer_pid
      from private.entry_counts c
      where c.organization_id = upkeep_at_home.organization_id and c.day = next.day and c.action = next.action
      for update skip locked
    ) as l;
    continue when parts is null or parts = array[0];
    select
      sum(c.entries)::integer as entries,
      sum(c.removed)::integer as removed,
      coalesce(sum(c.entries) filter (where c.writer_pid <> 0), 0) as new_entries
    into counted
    from private.entry_counts c
    where c.organization_id = upkeep_at_home.organization_id and c.day = next.day and c.action = next.action
      and c.writer_pid = any (parts);
    select array_agg(h.entries order by h.hour) into hours
    from (
      select u.hour, sum(u.entries)::integer as entries
      from private.entry_counts c cross join unnest(c.hours) with ordinality as u (entries, hour)
      where c.organization_id = upkeep_at_home.organization_id and c.day = next.day and c.action = next.action
        and c.writer_pid = any (parts)
      group by u.hour
    ) as h;
    delete from private.entry_counts c
    where c.organization_id = upkeep_at_home.organization_id and c.day = next.day and c.action = next.action
      and c.writer_pid = any (parts);
    if counted.removed <> 0 or exists (select from unnest(hours) as h where h <> 0) then
      insert into private.entry_counts (organization_id, day, action, writer_pid, entries, hours, removed)
      values (upkeep_at_home.organization_id, next.day, next.action, 0, counted.entries, hours, counted.removed);
    end if;
    month := date_trunc('month', next.day::timestamp);
    insert into private.monthly_entry_counts as s (organization_id, month, action, entries)
    values (upkeep_at_home.organization_id, month, next.action, counted.new_entries)
    on conflict on constraint monthly_entry_counts_pkey do update set entries = s.entries + excluded.entries;
    insert into private.days_to_seal (organization_id, day)
    values (upkeep_at_home.organization_id, next.day)
    on conflict do nothing;
    work := work + 1;
  end loop;
  if work = 500 then
    return true;
  end if;

  work := 0;
  while work < 20000 loop
    select d.day into next
    from private.days_to_seal d
    where d.organization_id = upkeep_at_home.organization_id
    order by d.day
    limit 1;
    exit when not found;
    work := work + 100 + private.seal_day(organization_id, next.day);
    delete from private.days_to_seal d
    where d.organization_id = upkeep_at_home.organization_id and d.day = next.day;
  end loop;
  while work < 20000 loop
    select d.day into next
    from private.sealed_days d
    where d.organization_id = upkeep_at_home.organization_id
      -- Tonight's, and those of nights without a run.
      and d.checked_at < now - case when d.night = tonight then interval '12 hours' else interval '30 days' end
    order by d.checked_at
    limit 1;
    exit when not found;
    work := work + 100 + private.seal_day(organization_id, next.day);
  end loop;

  delete from private.log_reads r
  where r.organization_id = upkeep_at_home.organization_id and r.day < today - 400;
  update private.rate_limits r
  set day = null, requests = 0, invalid_requests = 0, entries = 0, first_at = null, last_at = null, last_address = null
  where r.organization_id = upkeep_at_home.organization_id and r.day < today - 400;
  return work >= 20000;
end
$$;
comment on function private.upkeep_at_home is 'run_upkeep, of one organization: a bounded piece; whether there may be more.';
revoke execute on function private.upkeep_at_home from public, anon, authenticated, service_role;

alter table private.upkeep_state add column done_until uuid;
comment on column private.upkeep_state.done_until is 'The last organization that this run has done; null before the first.';

create or replace function private.run_upkeep() returns boolean
-- Otherwise one transaction has several connections to a node, and may wait for itself.
language plpgsql volatile set search_path = pg_catalog, pg_temp set citus.max_adaptive_executor_pool_size = 1
as $$
declare
  organizations uuid[];
  next uuid;
begin
  -- One piece at a time, whoever else runs it: on this node alone.
  perform pg_advisory_xact_lock('private.entry_counts'::regclass::oid::bigint);
  select array_agg(o.id order by o.id) into organizations
  from (
    select o.id from public.organizations o
    where o.id > coalesce(
      (select u.done_until from private.upkeep_state u), '00000000-0000-0000-0000-000000000000'
    )
    order by o.id
    limit 20
  ) as o;
  if organizations is null then
    update private.upkeep_state set last_run_at = clock_timestamp(), done_until = null;
    return false;
  end if;
  foreach next in array organizations loop
    if private.hand_over(next, format('select to_json(private.upkeep_at_home(%L))', next))::text = 'true' then
      return true;
    end if;
    update private.upkeep_state set done_until = next;
  end loop;
  return true;
end
$$;

-- Citus takes no subquery without columns.
select pg_temp.rewrite('private.health', 'select from private.feed_keys', 'select 1 from private.feed_keys');


-- 4. The tables.

set local role none;
set local citus.enable_ddl_propagation = on;
set local citus.enable_unsafe_triggers = on;
set local citus.multi_shard_modify_mode = 'sequential';

create temporary table distributed on commit drop as
select c.oid::regclass as name, c.oid = 'public.organizations'::regclass as is_first
from pg_class c
join pg_attribute a on a.attrelid = c.oid and not a.attisdropped
where c.relnamespace in ('public'::regnamespace, 'private'::regnamespace) and c.relkind = 'r'
  and (a.attname = 'organization_id' or c.oid = 'public.organizations'::regclass and a.attname = 'id')
  and c.oid <> 'private.api_key_hashes'::regclass;

-- The data is moved without them. What was written stays as it was written.
create temporary table made_afterwards on commit drop as
select
  c.conrelid as table_oid, 1 as step, c.conname as name,
  format('alter table %s add constraint %I %s', c.conrelid::regclass, c.conname, pg_get_constraintdef(c.oid)) as statement,
  -- Not to a table that is not distributed, and not from one that is on every node.
  c.conrelid in (select name from distributed) and c.confrelid in (select name from distributed) as is_possible
from pg_constraint c
where c.contype = 'f' and (
  c.conrelid in (select name from distributed) or c.conrelid = 'private.api_key_hashes'::regclass
)
union all
select t.tgrelid, 2, t.tgname, pg_get_triggerdef(t.oid), true
from pg_trigger t
where not t.tgisinternal and t.tgrelid in (select name from distributed);

do $$
declare
  made record;
begin
  for made in select m.*, m.table_oid::regclass as table_name from made_afterwards m order by m.step desc loop
    if made.step = 1 then
      execute format('alter table %s drop constraint %I', made.table_name, made.name);
    else
      execute format('drop trigger %I on %s', made.name, made.table_name);
    end if;
  end loop;
end
$$;

select create_distributed_table('public.organizations', 'id', colocate_with => 'none');
select create_distributed_table(name::text, 'organization_id', colocate_with => 'public.organizations')
from distributed where not is_first order by name::text;
select create_reference_table('private.api_key_hashes');
select create_reference_table('private.feed_keys');

-- What was moved is still in the coordinator's own tables, where nothing reads it.
select truncate_local_data_after_distributing_table('public.organizations');
select truncate_local_data_after_distributing_table(name) from distributed where not is_first;
select truncate_local_data_after_distributing_table('private.api_key_hashes');
select truncate_local_data_after_distributing_table('private.feed_keys');

do $$
declare
  made record;
begin
  for made in select m.* from made_afterwards m where m.is_possible order by m.step loop
    execute made.statement;
  end loop;
end
$$;

-- 5. Every function on every node, in the order in which they were made, and the one that is handed over.

do $$
declare
  function record;
begin
  for function in
    select p.oid from pg_proc p
    where p.pronamespace in ('public'::regnamespace, 'private'::regnamespace)
      and p.proowner = (select c.relowner from pg_class c where c.oid = 'public.audit_entries'::regclass)
      and p.oid <> 'private.at_home'::regproc
      and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
    order by p.oid
  loop
    perform create_distributed_function(function.oid);
  end loop;
end
$$;
select create_distributed_function(
  'private.at_home(uuid, text)', 'organization_id', colocate_with => 'public.organizations', force_delegation => true
);
select private.admit_nodes();

commit;
