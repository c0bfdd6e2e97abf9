-- What the migration `people` decides, applied: the refusal of whoever is no administrator.

create function audit_log_private.refuse_access() returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  raise exception 'you do not administer an organization with this id, or it has no such API key' using errcode = 'insufficient_privilege';
end $$;
comment on function audit_log_private.refuse_access is 'Raises 42501, with one message for things of others and things that do not exist.';

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
