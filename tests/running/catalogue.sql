-- Everything in the two schemas that a migration can set, as text, one object a line, without oids.

-- The order of privileges means nothing.
create or replace function pg_temp.sorted(acl aclitem[]) returns text[]
language sql stable
return (select array_agg(a::text order by a::text) from unnest(acl) as a);

with schemas as (
  select n.* from pg_namespace n where n.nspname in ('audit_log', 'audit_log_private')
),
relations as (
  select c.*, c.oid::regclass::text as name from pg_class c join schemas n on n.oid = c.relnamespace
)
select
  'schema ' || n.nspname as object,
  jsonb_build_array(n.nspowner::regrole, pg_temp.sorted(n.nspacl), obj_description(n.oid, 'pg_namespace')) as facts
from schemas n
union all
select 'relation ' || c.name, jsonb_build_array(
  c.relkind, c.relowner::regrole, c.reloptions, c.relpersistence, c.relrowsecurity, c.relforcerowsecurity,
  pg_temp.sorted(c.relacl), obj_description(c.oid, 'pg_class'),
  case when c.relkind = 'i' then pg_get_indexdef(c.oid) end
)
from relations c
union all
select concat('column ', c.name, '.', a.attnum, ' ', a.attname), jsonb_build_array(
  format_type(a.atttypid, a.atttypmod), a.attcollation::regcollation, a.attnotnull, a.attidentity, a.attgenerated,
  -- Since November 2026, Postgres counts there how often a column was changed.
  array(select o from unnest(a.attoptions) as o where o not like 'pg\_attver=%'),
  a.attstattarget, a.attstorage, a.attcompression, pg_temp.sorted(a.attacl),
  pg_get_expr(d.adbin, d.adrelid), col_description(c.oid, a.attnum)
)
from relations c
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
union all
select concat('constraint ', o.conrelid::regclass, ' ', o.conname), jsonb_build_array(
  o.contype, pg_get_constraintdef(o.oid), o.condeferrable, o.condeferred, o.convalidated,
  obj_description(o.oid, 'pg_constraint')
)
from pg_constraint o join schemas n on n.oid = o.connamespace
union all
select concat('trigger ', c.name, ' ', t.tgname), jsonb_build_array(
  pg_get_triggerdef(t.oid), t.tgenabled, obj_description(t.oid, 'pg_trigger')
)
from pg_trigger t join relations c on c.oid = t.tgrelid where not t.tgisinternal
union all
select 'type ' || t.oid::regtype, jsonb_build_array(
  t.typtype, t.typowner::regrole, format_type(t.typbasetype, t.typtypmod), t.typnotnull, t.typdefault,
  pg_temp.sorted(t.typacl), obj_description(t.oid, 'pg_type')
)
from pg_type t join schemas n on n.oid = t.typnamespace where t.typtype in ('c', 'd', 'e', 'r')
union all
select 'function ' || p.oid::regprocedure, jsonb_build_array(
  pg_get_functiondef(p.oid), p.proowner::regrole, pg_temp.sorted(p.proacl), obj_description(p.oid, 'pg_proc')
)
from pg_proc p join schemas n on n.oid = p.pronamespace
union all
select concat('policy ', c.name, ' ', p.polname), to_jsonb(p) - 'oid' - 'polrelid'
from pg_policy p join relations c on c.oid = p.polrelid
union all
select concat('default privileges ', n.nspname, ' ', d.defaclrole::regrole, ' ', d.defaclobjtype),
  to_jsonb(pg_temp.sorted(d.defaclacl))
from pg_default_acl d join schemas n on n.oid = d.defaclnamespace
union all
-- The rows that a new database has.
select 'row audit_log.actions ' || a.code, to_jsonb(a) - 'position' from audit_log.actions a
union all
select 'row audit_log_private.upkeep_state', to_jsonb(u) - 'last_run_at' from audit_log_private.upkeep_state u
union all
select 'row audit_log_private.cursor_keys', to_jsonb(count(*)) from audit_log_private.cursor_keys
order by 1
