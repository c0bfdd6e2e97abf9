-- Who is asking, and what they may administer. Replace these three functions if people and organizations are
-- kept elsewhere (docs/adopting.md has recipes). Everything else asks only them, and no later migration
-- creates them again.
--
-- Keep names, parameters and results as they are, and qualify every name. All three run with the rights of this
-- schema's owner. If one raises an error, the caller gets it and nothing happens. If caller() gives no id, or
-- administers() anything but true, the caller is refused (42501).

create function audit_log_private.caller(out id text, out email text)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  id := auth.jwt() ->> 'sub';
  email := auth.jwt() ->> 'email';
end $$;
comment on function audit_log_private.caller is 'The signed-in person; an id of null is nobody. id: any text that never changes. email: for records, or null.';

create function audit_log_private.my_organizations() returns table (id uuid, name text, role text)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  me constant record := audit_log_private.caller();
begin
  return query
    select o.id, o.name, m.role from audit_log.organization_members m
    join audit_log.organizations o on o.id = m.organization_id
    where m.user_id = me.id;
end $$;
comment on function audit_log_private.my_organizations is 'The organizations that the console offers the signed-in person. id: that in audit_log.organizations. role: admin or member.';

create function audit_log_private.administers(organization_id uuid) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  me constant record := audit_log_private.caller();
  -- Null for people of other identity providers, whose ids are no UUIDs.
  account constant uuid := substring(me.id from '^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$');
begin
  perform from audit_log.organization_members m
  where m.organization_id = administers.organization_id and m.user_id = me.id and m.role = 'admin';
  if not found then
    return false;
  end if;
  -- A JWT stays valid after its account is deleted or banned. If the account has a second factor, the session must
  -- have used it. (to_jsonb, because not every Auth has these columns.)
  return account is null
    or exists (
      select from auth.users u cross join to_jsonb(u) as j (facts)
      where u.id = account and facts ->> 'deleted_at' is null
        and ((facts ->> 'banned_until')::timestamptz > clock_timestamp()) is not true
    ) and (
      auth.jwt() ->> 'aal' = 'aal2'
      or not exists (select from auth.mfa_factors f where f.user_id = account and f.status = 'verified')
    );
end $$;
comment on function audit_log_private.administers is 'Whether the signed-in person administers an organization now. Asked before anything tells whether the organization exists.';

-- These functions call the three above, and are never replaced.

create function audit_log_private.refuse_access() returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  raise exception 'you do not administer an organization with this id, or it has no such API key' using errcode = 'insufficient_privilege';
end $$;
comment on function audit_log_private.refuse_access is 'Raises 42501. The message is the same whether a thing does not exist or belongs to another organization.';

create function audit_log_private.require_admin(organization_id uuid) returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  -- The organization comes last: an error of the replaced functions must not depend on whether it exists.
  if (audit_log_private.caller()).id is null or audit_log_private.administers(organization_id) is not true then
    perform audit_log_private.refuse_access();
  end if;
  perform from audit_log.organizations o where o.id = require_admin.organization_id;
  if not found then
    perform audit_log_private.refuse_access();
  end if;
end $$;
comment on function audit_log_private.require_admin is 'Raises 42501 unless the signed-in person administers the organization.';

create function audit_log_private.list_organizations() returns json
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  return (
    select coalesce(json_agg(
      json_build_object(
        'id', m.id, 'organization_id', coalesce(o.external_id, o.id::text), 'name', m.name, 'role', m.role,
        'is_admin', (m.role = 'admin' and audit_log_private.administers(m.id)) is true
      )
      order by m.name, m.id
    ), '[]')
    from audit_log_private.my_organizations() m
    join audit_log.organizations o on o.id = m.id
    where (audit_log_private.caller()).id is not null
  );
end $$;
comment on function audit_log_private.list_organizations is 'audit_log.list_organizations, with its owner''s rights.';

create function audit_log.list_organizations() returns json
language sql stable set search_path = pg_catalog, pg_temp
as $$ select audit_log_private.list_organizations() $$;
comment on function audit_log.list_organizations is 'The organizations that the signed-in person belongs to, by name: [{id, organization_id, name, role, is_admin}]. organization_id is what the API shows: the external id, if there is one. role is admin or member. is_admin is false for an admin who must use a second factor first.';
