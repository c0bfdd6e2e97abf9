-- Written by deno task migration from supabase/schemas: edit the files there.

-- From supabase/schemas/1_log/04_people.sql.

-- Who is asking, whether their session counts, and which role they have in which organization. Replace these functions
-- if people and organizations are kept elsewhere (docs/people.md has recipes). Everything else asks only them. They
-- are a migration of their own, which is the adopter's, and no later migration creates them again.
--
-- Keep names, parameters and results as they are, and qualify every name. All run with the rights of this schema's
-- owner. If one raises an error, the caller gets it and nothing happens. If caller() gives no id,
-- is_valid_session() anything but true, or my_organizations() not the role, the caller is refused (42501).

create function audit_log_private.caller(out id text, out email text)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  id := auth.jwt() ->> 'sub';
  email := auth.jwt() ->> 'email';
end $$;
comment on function audit_log_private.caller is
  'The signed-in person; an id of null is nobody. id: any text that never changes. email: for records, or null. '
  'An email without an id is the address in entries of jobs and of the secret key.';

create function audit_log_private.my_organizations() returns table (id text, name text, role text)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  me constant record := audit_log_private.caller();
begin
  return query
    select m.organization_id, coalesce(m.organization_name, m.organization_id), m.role
    from audit_log.organization_members m where m.user_id = me.id;
end $$;
comment on function audit_log_private.my_organizations is
  'The organizations that the signed-in person belongs to, with the role that they have now. id: the platform''s '
  'own, any text. name: for the console. role: admin may do everything, auditor may read, member may do nothing.';

create function audit_log_private.allowed_oauth_clients() returns text[]
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  return array[]::text[];
end $$;
comment on function audit_log_private.allowed_oauth_clients is 'Applications with the rights of who authorized them.';

create function audit_log_private.is_valid_session() returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  form constant text := '^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$';
  claims constant jsonb := auth.jwt();
  -- Null for people of other identity providers, whose ids are no UUIDs, in any of the forms that auth.uid() takes.
  account constant uuid := substring(translate(claims ->> 'sub', '{}-', '') from '^[0-9a-fA-F]{32}$')::uuid;
begin
  -- A JWT stays valid after its account is deleted or banned, and after its session is ended (sign out everywhere). If
  -- the account has a second factor, the session must have used it. Supabase Auth gives an application that a person
  -- authorized a token of that person. A hook may leave its client_id out, and the session still has it. (to_jsonb,
  -- because not every Auth has these columns.)
  return account is null
    or (claims ->> 'exp')::numeric > extract(epoch from clock_timestamp())
    and (claims ->> 'is_anonymous' = 'true') is not true
    and (
      claims ->> 'aal' = 'aal2'
      or not exists (select from auth.mfa_factors f where f.user_id = account and f.status = 'verified')
    )
    and exists (
      select from auth.users u
      join auth.sessions s on s.user_id = u.id
      cross join to_jsonb(u) as person (facts)
      cross join to_jsonb(s) as session (facts)
      where u.id = account and s.id = substring(claims ->> 'session_id' from form)::uuid
        and person.facts ->> 'deleted_at' is null
        and ((person.facts ->> 'banned_until')::timestamptz > clock_timestamp()) is not true
        and (person.facts ->> 'is_anonymous' = 'true') is not true
        and ((session.facts ->> 'not_after')::timestamptz <= clock_timestamp()) is not true
        and array_remove(array[claims ->> 'client_id', session.facts ->> 'oauth_client_id'], null)
          <@ audit_log_private.allowed_oauth_clients()
    );
end $$;
comment on function audit_log_private.is_valid_session is
  'Whether the account and the session count now, with the second factor if there is one, and are the person''s own. '
  'True for people of other identity providers.';
