-- Keeps audit_log.organizations in step with a table of organizations of your own. Comes after values.sql, and before
-- entries.sql, because an entry of an organization that is not there is refused.
--
-- Yours to change: the table public.organizations, and its columns id (c.id) and name (c.name, and name in the update).
-- The id may be of any type.

create function audit_log_private.custom_organizations() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into audit_log.organizations as o (external_id, name)
  select c.id::text, audit_log_private.custom_text(c.name, c.id::text) from changed c
  on conflict (external_id) do update set name = excluded.name where o.name <> excluded.name;
  return null;
end $$;
comment on function audit_log_private.custom_organizations is 'Adds new organizations, and renames those that were renamed. Deletes none: their log outlives them.';

create trigger audit_log_insert
  after insert on public.organizations referencing new table as changed
  for each statement execute function audit_log_private.custom_organizations();
create trigger audit_log_update
  after update on public.organizations referencing new table as changed
  for each statement execute function audit_log_private.custom_organizations();

revoke all on function audit_log_private.custom_organizations from public, anon, authenticated, service_role;

-- Fires the trigger with no row. If a name is wrong, this migration fails now, and your application does not.
update public.organizations set name = name where false;

-- Adds the organizations that exist already.
insert into audit_log.organizations (external_id, name)
select c.id::text, audit_log_private.custom_text(c.name, c.id::text) from public.organizations c
on conflict (external_id) do nothing;
