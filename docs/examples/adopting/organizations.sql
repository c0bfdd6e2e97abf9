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
    select audit_log_private.add_organization(t.id::text, t.name) into organization_id from public.organizations t
    -- For an id of type uuid, write ::uuid. If some have no log, such as personal accounts, add: and not t.is_personal
    where t.id = organization_of.external_id::text;
  end if;
  if organization_id is null then
    -- What is written after its row is gone, such as its last deletions.
    select o.id into organization_id from audit_log.organizations o
    where o.former_external_id = organization_of.external_id limit 1;
  end if;
  return organization_id;
end $$;

-- Adds new organizations at once, so that the console shows them, and follows new names and ids. It deletes no log. An
-- id whose row is gone leads to the log no more: whoever gets it next would read the log.
create or replace function audit_log_private.custom_organization() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  organization_id uuid;
  new_name text;
  gives_up_an_id boolean := tg_op = 'DELETE';
begin
  if tg_op = 'DELETE' then
    perform audit_log_private.organization_gone(old.id::text);
    return null;
  end if;
  gives_up_an_id := tg_op = 'UPDATE' and new.id <> old.id;
  if gives_up_an_id then
    perform audit_log_private.organization_renamed(old.id::text, new.id::text);
  end if;
  organization_id := audit_log_private.organization_of(new.id::text);
  new_name := audit_log_private.name_or_unnamed(new.name);
  update audit_log.organizations o set name = new_name where o.id = organization_id and o.name <> new_name;
  return null;
exception when others then
  -- New rows and names never fail because of the log: health() has what failed, as logging_failures. An id is not
  -- given up while it leads to the log.
  if gives_up_an_id then
    raise;
  end if;
  perform audit_log_private.note_failure(tg_relid::regclass::text, sqlstate || ': ' || sqlerrm);
  return null;
end $$;
comment on function audit_log_private.custom_organization is
  'Adds a new organization, and follows its name, its id and its deletion.';

-- Its name sorts before those of foreign keys (RI_…), so that an id has moved before what cascades from it is logged.
create or replace trigger "Audit_log_organization"
  after insert or delete or update of id, name on public.organizations
  for each row execute function audit_log_private.custom_organization();

revoke all on function audit_log_private.custom_organization from public, anon, authenticated, service_role;

-- Adds the organizations that exist already. If a name is wrong, this migration fails now, and your application does
-- not.
select audit_log_private.organization_of(null);
select audit_log_private.organization_of(t.id::text) from public.organizations t;

-- Run this again after a truncate, or writes with session_replication_role = replica, which fire no trigger.
select audit_log_private.organization_gone(o.external_id) from audit_log.organizations o
where o.external_id is not null and not exists (select from public.organizations t where t.id::text = o.external_id);
