-- Says which organization of the log stands for one of yours, and adds it as soon as there is something to log.
--
-- Yours to change: the table public.organizations, its columns id and name, and the type of id.

create or replace function audit_log_private.organization_of(external_id text) returns uuid
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  organization_id uuid;
begin
  select o.id into organization_id from audit_log.organizations o where o.external_id = organization_of.external_id;
  if organization_id is null then
    insert into audit_log.organizations as o (external_id, name)
    select t.id, audit_log_private.name_or_unnamed(t.name) from public.organizations t
    -- For an id of type uuid, write ::uuid. If some have no log, such as personal accounts, add: and not t.is_personal
    where t.id = organization_of.external_id::text
    -- Others may add it at the same time. (external_id) here could also mean the parameter.
    on conflict on constraint organizations_external_id_key do update set name = o.name
    returning o.id into organization_id;
  end if;
  return organization_id;
end $$;

-- Adds new organizations at once, so that the console shows them, and follows new names. Deletes none, because their
-- log outlives them. It never stops a write of yours: health() has what failed, as logging_failures.
create function audit_log_private.custom_organization() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  organization_id uuid;
  new_name text;
begin
  organization_id := audit_log_private.organization_of(new.id::text);
  new_name := audit_log_private.name_or_unnamed(new.name);
  update audit_log.organizations o set name = new_name where o.id = organization_id and o.name <> new_name;
  return null;
exception when others then
  perform audit_log_private.note_failure(tg_relid::regclass::text, sqlstate || ': ' || sqlerrm);
  return null;
end $$;
comment on function audit_log_private.custom_organization is 'Adds a new organization, and follows its name.';

create trigger audit_log_organization
  after insert or update of name on public.organizations
  for each row execute function audit_log_private.custom_organization();

revoke all on function audit_log_private.custom_organization from public, anon, authenticated, service_role;

-- Adds the organizations that exist already. If a name is wrong, this migration fails now, and your application does
-- not.
select audit_log_private.organization_of(null);
select audit_log_private.organization_of(t.id::text) from public.organizations t;
