-- People sign in with Auth0, which knows their organizations (docs/people.md). Yours to change: the namespace
-- https://example.com/ and the roles.

create or replace function audit_log_private.caller(out id text, out email text)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  id := auth.jwt() ->> 'sub';
  email := auth.jwt() ->> 'https://example.com/email';
end $$;

create or replace function audit_log_private.my_organizations() returns table (id text, name text, role text)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  claims constant jsonb := auth.jwt();
begin
  return query
    select claims ->> 'org_id', coalesce(claims ->> 'https://example.com/org_name', claims ->> 'org_id'), case
      when claims -> 'https://example.com/roles' ? 'admin' then 'admin'
      when claims -> 'https://example.com/roles' ? 'auditor' then 'auditor'
      else 'member'
    end
    where claims ? 'org_id';
end $$;
