-- People sign in with Clerk. Their token says which organization is active and which role they have in it: "o": {"id",
-- "rol"} in tokens of version 2, org_id and org_role before. They see one organization at a time.
--
-- Yours to change: the roles admin and auditor. audit_log.organizations.external_id holds Clerk's ids (org_…); let your
-- webhook for organization.created and organization.updated write it (docs/adopting.md). Clerk never gives an id again.
-- The signed-in person is the token's sub (user_…). For the e-mail address in records, add the claim "email" to the
-- session token in Clerk's dashboard.

create or replace function audit_log_private.my_organizations() returns table (id uuid, role text)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  claims constant jsonb := auth.jwt();
  active constant text := coalesce(claims #>> '{o,id}', claims ->> 'org_id');
  their_role constant text := coalesce(claims #>> '{o,rol}', claims ->> 'org_role');
begin
  return query
    select o.id, case
      when their_role in ('admin', 'org:admin') then 'admin'
      when their_role in ('auditor', 'org:auditor') then 'auditor'
      else 'member'
    end
    from audit_log.organizations o
    where o.external_id = active;
end $$;
