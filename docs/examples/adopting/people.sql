-- People sign in with Supabase Auth, and tables of your own say who belongs to which organization.
--
-- Yours to change, in the first function, the last one and the triggers: public.organizations with its columns id and
-- name, public.memberships with its columns organization_id, user_id and level, and the levels 50 and 30, from which on
-- somebody is an administrator or an auditor. (For an enum or a text: m.level in ('owner', 'admin').) If roles are rows
-- of another table, join it in both queries. If a person can have several in an organization, let the first return one
-- row for each organization (distinct on).

create or replace function audit_log_private.my_organizations() returns table (id text, name text, role text)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return query
    select
      o.id::text, o.name::text, case when m.level >= 50 then 'admin' when m.level >= 30 then 'auditor' else 'member' end
    from public.memberships m join public.organizations o on o.id = m.organization_id
    where m.user_id = auth.uid();
end $$;

-- An application that a person has authorized (Supabase Auth as an OAuth server) has a token of that person, and no
-- rights here. If the platform trusts one with all of the person's rights, write its client id into the braces.
create or replace function audit_log_private.allowed_oauth_clients() returns text[]
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$ begin return '{}'; end $$;

-- With nobody signed in. If a name is wrong, this migration fails now, and no call fails later.
select audit_log_private.my_organizations();

-- Closes the log of an id that is given up: whoever gets it next must not read the log. At the commit, so that what
-- goes with the organization is still logged.
create or replace function audit_log_private.custom_close_organization() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform audit_log_private.close_organization(old.id::text)
  where not exists (select from public.organizations o where o.id = old.id);
  return null;
end $$;
revoke all on function audit_log_private.custom_close_organization() from public, anon, authenticated, service_role;
drop trigger if exists audit_log_organization_gone on public.organizations;
create constraint trigger audit_log_organization_gone after delete or update of id on public.organizations
  deferrable initially deferred for each row execute function audit_log_private.custom_close_organization();

-- Marks the API keys of somebody who leaves, or administers no more. (To revoke them at once, give person_left true as
-- its third argument.) It never stops a write of yours: health() has what failed.
create or replace function audit_log_private.custom_person_left() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform audit_log.person_left(old.organization_id::text, old.user_id::text)
  where not exists (
    select from public.memberships m
    where m.organization_id = old.organization_id and m.user_id = old.user_id and m.level >= 50
  );
  return null;
exception when others then
  perform audit_log_private.note_failure(tg_relid::regclass::text, sqlstate || ': ' || sqlerrm);
  return null;
end $$;
revoke all on function audit_log_private.custom_person_left() from public, anon, authenticated, service_role;
-- It names the same columns as the function. If a name is wrong, this migration fails now.
create or replace trigger audit_log_person_left after delete or update of organization_id, user_id, level
  on public.memberships for each row execute function audit_log_private.custom_person_left();
