-- People sign in with Auth0, and their access token has org_id, the organization that they signed in to. An Action
-- adds the other claims, with a namespace of your own:
--
--   exports.onExecutePostLogin = async (event, api) => {
--     api.accessToken.setCustomClaim("role", "authenticated");
--     api.accessToken.setCustomClaim("https://example.com/email", event.user.email);
--     api.accessToken.setCustomClaim("https://example.com/roles", event.authorization?.roles ?? []);
--   };
--
-- Yours to change: the namespace https://example.com/ and the roles admin and auditor.
-- audit_log.organizations.external_id holds Auth0's ids (org_…). Auth0 never gives an id again.

create or replace function audit_log_private.caller(out id text, out email text)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  id := auth.jwt() ->> 'sub';
  email := auth.jwt() ->> 'https://example.com/email';
end $$;

create or replace function audit_log_private.my_organizations() returns table (id uuid, role text)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  claims constant jsonb := auth.jwt();
begin
  return query
    select o.id, case
      when claims -> 'https://example.com/roles' ? 'admin' then 'admin'
      when claims -> 'https://example.com/roles' ? 'auditor' then 'auditor'
      else 'member'
    end
    from audit_log.organizations o
    where o.external_id = claims ->> 'org_id';
end $$;
