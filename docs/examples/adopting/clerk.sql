-- People sign in with Clerk, which knows their organizations (docs/people.md). The roles are yours to change.

create or replace function audit_log_private.my_organizations() returns table (id text, name text, role text)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  claims constant jsonb := auth.jwt();
  active constant text := coalesce(claims #>> '{o,id}', claims ->> 'org_id');
  their_role constant text := coalesce(claims #>> '{o,rol}', claims ->> 'org_role');
begin
  return query
    select active, coalesce(claims ->> 'org_name', claims #>> '{o,slg}', active), case
      when their_role in ('admin', 'org:admin') then 'admin'
      when their_role in ('auditor', 'org:auditor') then 'auditor'
      else 'member'
    end
    where active is not null;
end $$;
