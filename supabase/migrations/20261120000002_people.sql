-- Who is asking, what they may administer and read, and which organization is meant. Replace these five functions if
-- people and organizations are kept elsewhere (docs/adopting.md has recipes). Everything else asks only them, and no
-- later migration creates them again.
--
-- Keep names, parameters and results as they are, and qualify every name. All five run with the rights of this
-- schema's owner. If one raises an error, the caller gets it and nothing happens. If caller() gives no id, or
-- administers() or reads() anything but true, the caller is refused (42501).

create function audit_log_private.caller(out id text, out email text)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  id := auth.jwt() ->> 'sub';
  email := auth.jwt() ->> 'email';
end $$;
comment on function audit_log_private.caller is 'The signed-in person; an id of null is nobody. id: any text that never changes. email: for records, or null. An email without an id is the address in entries of jobs and of the secret key.';

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
comment on function audit_log_private.my_organizations is 'The organizations that the console offers the signed-in person. id: that in audit_log.organizations. role: admin, auditor or member.';

create function audit_log_private.administers(organization_id uuid) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  -- Not in the query: Citus would call it on another node, where nobody is signed in.
  me constant record := audit_log_private.caller();
begin
  perform from audit_log.organization_members m
  where m.organization_id = administers.organization_id and m.user_id = me.id and m.role = 'admin';
  return found and audit_log_private.is_valid_session();
end $$;
comment on function audit_log_private.administers is 'Whether the signed-in person administers an organization now. Asked before anything tells whether the organization exists.';

create function audit_log_private.reads(organization_id uuid) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  me constant record := audit_log_private.caller();
begin
  -- Whoever administers may read, also where only that function was replaced.
  return audit_log_private.administers(organization_id) or exists (
    select from audit_log.organization_members m
    where m.organization_id = reads.organization_id and m.user_id = me.id and m.role = 'auditor'
  ) and audit_log_private.is_valid_session();
end $$;
comment on function audit_log_private.reads is 'Whether the signed-in person may read an organization''s log, seals and usage now: administrators and auditors. Asked before anything tells whether the organization exists.';

create function audit_log_private.organization_of(external_id text) returns uuid
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  organization_id uuid;
begin
  select o.id into organization_id from audit_log.organizations o where o.external_id = organization_of.external_id;
  if organization_id is null then
    raise exception 'the organization % is not in the table audit_log.organizations', coalesce(quote_literal(external_id), 'null') using
      errcode = 'foreign_key_violation',
      hint = 'Replace audit_log_private.organization_of: it adds the organization, or returns null if it has no log.';
  end if;
  return organization_id;
end $$;
comment on function audit_log_private.organization_of is 'The organization with an external_id, for log_table and record_entries. A replacement finds it, or adds it from a table of the platform (also beside others that add it), or returns null if it has no log: then nothing is written, and nothing fails. Null for null.';

-- These functions are never replaced. A replacement may call the first two.

create function audit_log_private.has_role(organization_id uuid, roles text[]) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  -- The same work for every organization_id, so that its time tells nobody which organizations exist.
  return organization_id in (select m.id from audit_log_private.my_organizations() m where m.role = any (roles));
end $$;
comment on function audit_log_private.has_role is 'Whether my_organizations gives the signed-in person one of these roles in an organization.';

create function audit_log_private.is_valid_session() returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  me constant record := audit_log_private.caller();
  -- Null for people of other identity providers, whose ids are no UUIDs.
  account constant uuid := substring(me.id from '^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$')::uuid;
begin
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
comment on function audit_log_private.is_valid_session is 'Whether the signed-in person''s account is neither deleted nor banned, and the session has used its second factor, if there is one. True for people of other identity providers.';

create function audit_log_private.refuse_access() returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  raise exception 'you may not do this in an organization with this id, or it has no such API key' using errcode = 'insufficient_privilege';
end $$;
comment on function audit_log_private.refuse_access is 'Raises 42501. The message is the same whether a thing does not exist or belongs to another organization.';

create function audit_log_private.refuse_conditions() returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  -- PostgREST casts and filters in the statement that calls the function. An error there, such as that of
  -- ?select=pgrst_scalar::int, can show the answer or depend on it, and undoes what the function has recorded. What
  -- callers send is in this text only as the names of columns and types. PostgREST 12 to 14 write each cast and each
  -- filter with these words, and a call without one without them; all set request.method.
  if current_setting('request.method', true) <> '' and current_query() ~* '\m(cast *\(|where\M)' then
    raise exception 'the Data API cannot cast or filter the answer of this function: leave out select and filters, and choose from the answer' using errcode = 'invalid_parameter_value';
  end if;
end $$;
comment on function audit_log_private.refuse_conditions is 'Raises 22023 if the Data API is to cast or filter what a function returns.';

create function audit_log_private.require_access(organization_id uuid, for_admins boolean) returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  if (audit_log_private.caller()).id is null
    or (case when for_admins then audit_log_private.administers(organization_id) else audit_log_private.reads(organization_id) end) is not true
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
comment on function audit_log_private.require_access is 'Raises 42501 unless the organization exists and the signed-in person administers it, or without for_admins may read its log. Then as refuse_conditions.';

create function audit_log_private.organization_ids(external_ids text[]) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  return (
    select jsonb_object_agg(coalesce(e.external_id, ''), audit_log_private.organization_of(e.external_id))
    from unnest(external_ids) as e (external_id)
  );
end $$;
comment on function audit_log_private.organization_ids is 'The organizations with these different external_ids: {external_id: id}, null if it has no log. The key of null is empty.';

create function audit_log_private.request_context(out email text, out otherwise text, out data jsonb)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  me constant record := audit_log_private.caller();
  request constant text := current_setting('request.headers', true);
  headers json;
  caller jsonb;
begin
  data := '{}';
  otherwise := coalesce(audit_log_private.valid_email(me.email), 'unknown@invalid');
  -- Never null for a person: the entry would name the person of the row, who may be somebody else.
  email := case when me.id is not null then otherwise end;
  if me.id is null and (request <> '') is not true then
    return;
  end if;
  caller := jsonb_build_object('id', audit_log_private.cut(me.id, 100), 'kind', case
    when me.id is not null then 'person' when current_setting('role') = 'service_role' then 'secret_key' else 'nobody'
  end);
  begin
    headers := nullif(request, '')::json;
    caller := caller || jsonb_build_object(
      -- As in headers.ts: the address that the nearest proxy reports. Without a proxy, the caller can forge it.
      'address', substring(
        trim(coalesce(nullif(headers ->> 'cf-connecting-ip', ''), split_part(headers ->> 'x-forwarded-for', ',', -1)))
        from '^[0-9a-fA-F:.]{2,45}$'
      ),
      'user_agent', audit_log_private.cut(headers ->> 'user-agent', 200)
    );
  exception
    -- Anybody can change this setting. That must not make a write fail. The second is raised by deep nesting.
    when data_exception or statement_too_complex then null;
  end;
  data := jsonb_build_object('caller', jsonb_strip_nulls(caller));
end $$;
comment on function audit_log_private.request_context is 'Who writes, for an entry. email: of the signed-in person, unknown@invalid if they have none; null if nobody is signed in. otherwise: the address if nothing else tells whose it is. data: within a request or for a signed-in person, the field caller, {id, kind, address, user_agent}, to be added to the data of an entry.';

create function audit_log_private.list_organizations() returns json
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform audit_log_private.refuse_conditions();
  return (
    select coalesce(json_agg(
      json_build_object(
        'id', m.id, 'organization_id', coalesce(o.external_id, o.id::text), 'name', m.name, 'role', m.role,
        'is_admin', (m.role = 'admin' and audit_log_private.administers(m.id)) is true,
        'may_read', (m.role <> 'member' and audit_log_private.reads(m.id)) is true
      )
      order by m.name, m.id
    ), '[]')
    from audit_log_private.my_organizations() m
    join audit_log.organizations o on o.id = m.id and o.leaving_at is null
    where (audit_log_private.caller()).id is not null
  );
end $$;
comment on function audit_log_private.list_organizations is 'The organizations that the signed-in person belongs to, by name: [{id, organization_id, name, role, is_admin, may_read}]. organization_id is what the API shows: the external id, if there is one. role is admin, auditor or member. is_admin and may_read are false for a person who must use a second factor first.';
