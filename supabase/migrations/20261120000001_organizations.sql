-- Organizations, the people in them, and what each role may do.
--
-- There are two schemas. The Data API serves `public`: the three tables that the platform writes, and
-- functions. It never serves `private`, which holds everything else.
--
-- People call functions and have no access to tables. Row level security alone would not keep tenants apart:
-- the planner's estimates use statistics about everybody's rows, and the Data API returns these estimates.
-- Row level security is on for every table, without policies for people, as a second wall.
--
-- A function in `public` runs with its caller's rights and only calls one in `private`. These functions run
-- with their owner's rights (security definer):
--
--  1. count_entries: a trigger. Writers of entries have no access to the counts.
--  2. find_api_key, answer_request: one request to the API, for service_role. The token's hash determines
--     the organization.
--  3. list_organizations: for signed-in people, about themselves.
--  4. list_api_keys, create_api_key, rotate_api_key, revoke_api_key, api_key_usage, read_audit_log,
--     daily_entry_counts, list_seals: for administrators. The first statement of each is require_admin.

create schema private;
comment on schema private is 'Secrets and helpers. Not served by the Data API.';
revoke all on schema private from public;
grant usage on schema private to authenticated, service_role;

create table public.organizations (
  id uuid primary key default gen_random_uuid(),
  name text not null check (name ~ '\S' and char_length(name) <= 200),
  created_at timestamptz not null default now()
);
comment on table public.organizations is 'One tenant. Every audit entry and every API key belongs to exactly one.';
alter table public.organizations enable row level security;
revoke all on public.organizations from public, anon, authenticated, service_role;
grant select, insert, update, delete on public.organizations to service_role;

create type public.organization_role as enum ('admin', 'member');

create table public.organization_members (
  organization_id uuid not null references public.organizations on delete cascade,
  user_id uuid not null references auth.users on delete cascade,
  role public.organization_role not null default 'member',
  created_at timestamptz not null default now(),
  primary key (organization_id, user_id)
);
comment on table public.organization_members is 'Who belongs to an organization. Only an admin may read its log, and create and revoke its API keys.';
-- For list_organizations, and for the deletion of accounts.
create index organization_members_user_id_idx on public.organization_members (user_id);
alter table public.organization_members enable row level security;
revoke all on public.organization_members from public, anon, authenticated, service_role;
grant select, insert, update, delete on public.organization_members to service_role;

create function private.refuse_access() returns void
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception 'you do not administer an organization with this id, or it has no such API key'
    using errcode = 'insufficient_privilege';
end
$$;
comment on function private.refuse_access is 'Raises 42501, with one message for things of others and things that do not exist.';
revoke execute on function private.refuse_access from public, anon, authenticated, service_role;

create function private.require_admin(organization_id uuid) returns void
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
declare
  -- Not in the query: on several nodes (docs/scaling.md) that may run where nobody is signed in.
  person constant uuid := auth.uid();
begin
  perform from public.organization_members m
  where m.organization_id = require_admin.organization_id and m.user_id = person and m.role = 'admin';
  if not found then
    perform private.refuse_access();
  end if;
end
$$;
comment on function private.require_admin is 'Raises 42501 unless the signed-in person administers the organization.';
revoke execute on function private.require_admin from public, anon, authenticated, service_role;

create function private.list_organizations() returns json
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
  person constant uuid := auth.uid();
begin
  return (
    select coalesce(json_agg(json_build_object('id', o.id, 'name', o.name, 'role', m.role) order by o.name, o.id), '[]')
    from public.organization_members m
    join public.organizations o on o.id = m.organization_id
    where m.user_id = person
  );
end
$$;
comment on function private.list_organizations is 'public.list_organizations, with its owner''s rights.';
revoke execute on function private.list_organizations from public, anon, authenticated, service_role;
grant execute on function private.list_organizations to authenticated;

create function public.list_organizations() returns json
language sql stable set search_path = pg_catalog, pg_temp
as $$ select private.list_organizations() $$;
comment on function public.list_organizations is 'The organizations that the signed-in person belongs to, by name: [{id, name, role}]; role is admin or member.';
revoke execute on function public.list_organizations from public, anon, authenticated, service_role;
grant execute on function public.list_organizations to authenticated;
