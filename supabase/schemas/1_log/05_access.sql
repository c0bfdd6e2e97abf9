-- Who may do what, by what the functions of `people` say.

create function audit_log_private.refuse_access() returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  raise exception 'you may not do this in an organization with this id, or it has no such API key'
    using errcode = 'insufficient_privilege';
end $$;
comment on function audit_log_private.refuse_access is
  'Raises 42501. The message is the same whether a thing does not exist or belongs to another organization.';

create function audit_log_private.refuse_conditions() returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  -- PostgREST casts and filters in the statement that calls the function. An error there, such as that of
  -- ?select=pgrst_scalar::int, can show the answer or depend on it, and undoes what the function has recorded. What
  -- callers send is in this text only as the names of columns and types. PostgREST 12 to 14 write each cast and each
  -- filter with these words, and a call without one without them; all set request.method.
  if current_setting('request.method', true) <> '' and current_query() ~* E'\\m(cast *\\(|where\\M)' then
    raise exception
      'the Data API cannot cast or filter the answer of this function: leave out select and filters, and choose '
      'from the answer'
      using errcode = 'invalid_parameter_value';
  end if;
end $$;
comment on function audit_log_private.refuse_conditions is
  'Raises 22023 if the Data API is to cast or filter what a function returns.';

create function audit_log_private.role_may(role text, for_admins boolean) returns boolean
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  return coalesce(role = 'admin' or role = 'auditor' and not for_admins, false);
end $$;
comment on function audit_log_private.role_may is
  'Whether a role of my_organizations() may do what is for administrators, or else for auditors, too.';

create function audit_log_private.require_access(
  organization_id uuid, for_admins boolean, or_server boolean default false
) returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  if (case
    when (audit_log_private.caller()).id is null then or_server and current_setting('role') = 'service_role'
    -- The same work for every organization_id, so that its time tells nobody which organizations exist.
    else audit_log_private.is_valid_session() and organization_id in (
      select m.id from audit_log_private.my_organizations() m
      where audit_log_private.role_may(m.role, for_admins)
    )
  end) is not true
  then
    perform audit_log_private.refuse_access();
  end if;
  -- Comes last: an error of the replaced functions must not depend on it.
  perform from audit_log.organizations o where o.id = require_access.organization_id and o.leaving_at is null;
  if not found then
    perform audit_log_private.refuse_access();
  end if;
  perform audit_log_private.refuse_conditions();
end $$;
comment on function audit_log_private.require_access is
  'Raises 42501 unless the organization exists and the signed-in person is an administrator of it, or without '
  'for_admins an auditor. With or_server, the secret key without a person may, too. Raises 22023 as refuse_conditions.';

create function audit_log_private.organization_named(given text) returns uuid
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  organization_id uuid;
begin
  if current_setting('role') is distinct from 'service_role' then
    return given::uuid;
  end if;
  select o.id into organization_id from audit_log.organizations o
  where o.external_id = given or o.id::text = lower(given)
  order by o.external_id is distinct from given limit 1;
  return coalesce(organization_id, audit_log_private.organization_of(given));
end $$;
comment on function audit_log_private.organization_named is
  'The organization with a UUID. The secret key may also give an external_id, whose organization the platform''s '
  'organization_of may add. A person may not: the answer would tell which exist.';

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
