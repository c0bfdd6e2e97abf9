-- Written by deno task migration from supabase/schemas, sha256 3bb9e39083995c0806ceb64dba2227058027fe498887ee21737f0ac4101dad22.
-- From supabase/schemas/05_people.sql.

-- Who is asking, what they may administer and read, and which organization is meant. Replace these five functions if
-- people and organizations are kept elsewhere (docs/adopting.md has recipes). Everything else asks only them. They are
-- a migration of their own, which is the adopter's, and no later migration creates them again.
--
-- Keep names, parameters and results as they are, and qualify every name. All five run with the rights of this
-- schema's owner. If one raises an error, the caller gets it and nothing happens. If caller() gives no id, or
-- administers() or may_read() anything but true, the caller is refused (42501).

create function audit_log_private.caller(out id text, out email text)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  id := auth.jwt() ->> 'sub';
  email := auth.jwt() ->> 'email';
end $$;
comment on function audit_log_private.caller is
  'The signed-in person; an id of null is nobody. id: any text that never changes. email: for records, or null. '
  'An email without an id is the address in entries of jobs and of the secret key.';

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
comment on function audit_log_private.my_organizations is
  'The organizations that the console offers the signed-in person. id: that in audit_log.organizations. role: '
  'admin, auditor or member.';

create function audit_log_private.administers(organization_id uuid) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  me constant record := audit_log_private.caller();
begin
  perform from audit_log.organization_members m
  where m.organization_id = administers.organization_id and m.user_id = me.id and m.role = 'admin';
  return found and audit_log_private.is_valid_session();
end $$;
comment on function audit_log_private.administers is
  'Whether the signed-in person administers an organization now. Asked before anything tells whether the '
  'organization exists.';

create function audit_log_private.may_read(organization_id uuid) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  me constant record := audit_log_private.caller();
begin
  -- Whoever administers may read, also where only that function was replaced.
  if audit_log_private.administers(organization_id) then
    return true;
  end if;
  perform from audit_log.organization_members m
  where m.organization_id = may_read.organization_id and m.user_id = me.id and m.role = 'auditor';
  return found and audit_log_private.is_valid_session();
end $$;
comment on function audit_log_private.may_read is
  'Whether the signed-in person may read an organization''s log, seals and usage now: administrators and '
  'auditors. Asked before anything tells whether the organization exists.';

create function audit_log_private.organization_of(external_id text) returns uuid
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  organization_id uuid;
begin
  select o.id into organization_id from audit_log.organizations o where o.external_id = organization_of.external_id;
  if organization_id is null then
    raise exception 'the organization % is not in the table audit_log.organizations',
      coalesce(quote_literal(external_id), 'null') using
      errcode = 'foreign_key_violation',
      hint = 'Replace audit_log_private.organization_of: it adds the organization, or returns null if it has no log.';
  end if;
  return organization_id;
end $$;
comment on function audit_log_private.organization_of is
  'The organization with an external_id, for log_table and record_entries. A replacement finds it, or adds it '
  'from a table of the platform (also beside others that add it), or returns null if it has no log: then nothing '
  'is written, and nothing fails. Null for null.';
