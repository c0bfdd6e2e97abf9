-- People sign in with Supabase Auth, and tables of your own say who belongs to which organization.
--
-- Yours to change, in the first function and the triggers at the end: public.memberships with its columns
-- organization_id, user_id and level, and the levels 50 and 30, from which on somebody is an administrator or an
-- auditor. (For an enum or a text: m.level in ('owner', 'admin').) Needs organizations.sql, which fills external_id.

create or replace function audit_log_private.my_organizations() returns table (id uuid, role text)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return query
    select o.id, case when m.level >= 50 then 'admin' when m.level >= 30 then 'auditor' else 'member' end
    from public.memberships m
    join audit_log.organizations o on o.external_id = m.organization_id::text
    where m.user_id = auth.uid();
end $$;

-- An application that a person has authorized (Supabase Auth as an OAuth server) has a token of that person, and no
-- rights here. If the platform trusts one with all of the person's rights, write its client id into the braces.
create or replace function audit_log_private.allowed_oauth_clients() returns text[]
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$ begin return '{}'; end $$;

-- Calls my_organizations once, with nobody signed in. If a name is wrong, this migration fails now, and no call fails
-- later.
select audit_log_private.my_organizations();

-- The API keys of somebody who leaves, or administers no more, are marked: the console shows "Owner left". (To revoke
-- them at once, give person_left true as its third argument.) It never stops a write of yours: health() has what
-- failed.
create or replace function audit_log_private.custom_person_left() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform audit_log.person_left(audit_log_private.organization_of(old.organization_id::text), old.user_id::text);
  return null;
exception when others then
  perform audit_log_private.note_failure(tg_relid::regclass::text, sqlstate || ': ' || sqlerrm);
  return null;
end $$;
revoke all on function audit_log_private.custom_person_left() from public, anon, authenticated, service_role;
-- The condition names the same columns as the function. If a name is wrong, this migration fails now.
create or replace trigger audit_log_person_left after delete on public.memberships
  for each row when (old.organization_id is not null and old.user_id is not null)
  execute function audit_log_private.custom_person_left();
create or replace trigger audit_log_person_demoted after update on public.memberships
  for each row when (
    old.level >= 50
    and (new.level < 50 or (new.organization_id, new.user_id) is distinct from (old.organization_id, old.user_id))
  )
  execute function audit_log_private.custom_person_left();
