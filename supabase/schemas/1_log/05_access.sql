-- Who may do what, by what the functions of `people` say.

create function audit_log_private.refuse_access() returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  raise exception 'you may not do this in an organization with this id, or it has no such API key'
    using errcode = 'insufficient_privilege';
end $$;
comment on function audit_log_private.refuse_access is 'Raises 42501: one message, whether a thing is there or not.';

create function audit_log_private.refuse_conditions() returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  -- PostgREST casts and filters in the statement that calls the function. An error there, such as that of
  -- ?select=pgrst_scalar::int, can show the answer or depend on it, and undoes what the function has recorded. What
  -- callers send is in this text only as the names of columns and types. PostgREST 12 to 14 write each cast and each
  -- filter with these words, and a call without one without them; all set request.method.
  if current_setting('request.method', true) <> '' and current_query() ~* E'\\m(cast *\\(|where\\M)' then
    raise exception 'the Data API cannot cast or filter the answer of this function: leave out select and filters'
      using errcode = 'invalid_parameter_value';
  end if;
end $$;
comment on function audit_log_private.refuse_conditions is 'Raises 22023 if the Data API is to cast or filter answers.';

create function audit_log_private.role_may(role text, for_admins boolean) returns boolean
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  return coalesce(role = 'admin' or role = 'auditor' and not for_admins, false);
end $$;
comment on function audit_log_private.role_may is 'Whether a role may do what is for administrators, or auditors, too.';

create function audit_log_private.require_access(
  organization_id uuid, for_admins boolean, or_server boolean default false
) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  named text[];
  known audit_log.organizations;
begin
  if (audit_log_private.caller()).id is null then
    named := array(
      select o.platform_id from audit_log.organizations o
      where or_server and current_setting('role') = 'service_role' and o.id = require_access.organization_id
    );
  -- The same work for every organization_id, so that its time tells nobody which organizations exist.
  elsif audit_log_private.is_valid_session() then
    named := array(
      select m.id from audit_log_private.my_organizations() m
      where audit_log_private.role_may(m.role, for_admins)
        and audit_log.organization_uuid(m.id) = require_access.organization_id
    );
  end if;
  if coalesce(named, '{}') = '{}' then
    perform audit_log_private.refuse_access();
  end if;
  -- Comes last: an error of the replaced functions must not depend on it. Another id may have the same UUID.
  select o.* into known from audit_log.organizations o where o.id = require_access.organization_id;
  if known.closed_at is not null
    or found and not exists (select from unnest(named) as n where known.platform_id in (n, lower(n)))
  then
    perform audit_log_private.refuse_access();
  end if;
  perform audit_log_private.refuse_conditions();
  return coalesce(known.platform_id, named[1]);
end $$;
comment on function audit_log_private.require_access is
  'Raises 42501 unless the signed-in person is an administrator of the organization, or without for_admins an '
  'auditor, and it is open. With or_server, the secret key may, too. Returns the platform''s id.';

create function audit_log_private.allowed_organization(
  given text, for_admins boolean, out id uuid, out platform_id text
)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  -- The secret key may do everything, so its id must be exactly that of the platform. A person may give the UUID, too.
  id := case current_setting('role')
    when 'service_role' then audit_log_private.organization_named(given) else audit_log.organization_uuid(given)
  end;
  platform_id := audit_log_private.require_access(id, for_admins, or_server => true);
end $$;
comment on function audit_log_private.allowed_organization is 'The organization with this id, if the caller may.';

create function audit_log_private.administered_organization(given text) returns uuid
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  organization uuid;
begin
  if current_setting('role') = 'service_role' then
    perform audit_log_private.ensure_organization(given);
  end if;
  organization := audit_log_private.ensure_organization(
    (audit_log_private.allowed_organization(given, for_admins => true)).platform_id
  );
  -- Locked until the commit: what is made while an organization closes would work again once it is opened.
  perform from audit_log.organizations o where o.id = organization and o.closed_at is null for key share;
  if not found then
    perform audit_log_private.refuse_access();
  end if;
  return organization;
end $$;
comment on function audit_log_private.administered_organization is 'The allowed organization: added, if it is new.';

create function audit_log_private.serve(name text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  namesake pg_proc;
begin
  select p.* into strict namesake from pg_proc p
  where p.pronamespace = 'audit_log_private'::regnamespace and p.proname = serve.name;
  execute format(
    'create function audit_log.%I(%s) returns %s language sql %s set search_path = pg_catalog, pg_temp as %L', name,
    pg_get_function_arguments(namesake.oid), pg_get_function_result(namesake.oid),
    case namesake.provolatile when 's' then 'stable' else 'volatile' end,
    format('select audit_log_private.%I(%s)', name, array_to_string(namesake.proargnames, ', '))
  );
  execute format('comment on function audit_log.%I is %L', name, obj_description(namesake.oid, 'pg_proc'));
end $$;
comment on function audit_log_private.serve is
  'Makes the function in audit_log that people call: with the caller''s rights, it only calls its namesake here.';
