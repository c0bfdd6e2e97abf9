-- Who may do what, for whom: organizations and the people in them.
--
-- Two schemas. `public` is what the Data API serves. `private` is never served: it holds what no
-- client may reach of its own accord (hashes, counters, helpers).
--
-- Row level security decides, and functions run with the rights of their caller. The one that does
-- not, over all migrations: private.count_entries, a trigger, because whoever writes entries may not
-- write their counts.

create schema private;
comment on schema private is 'Helpers and secrets. Not served by the Data API.';
revoke all on schema private from public;
grant usage on schema private to authenticated, service_role;

create table public.organizations (
  id uuid primary key default gen_random_uuid(),
  name text not null check (name ~ '\S' and char_length(name) <= 200),
  created_at timestamptz not null default now()
);
comment on table public.organizations is 'One tenant. Every audit entry and every API key belongs to exactly one.';

create type public.organization_role as enum ('admin', 'member');

create table public.organization_members (
  organization_id uuid not null references public.organizations on delete cascade,
  user_id uuid not null references auth.users on delete cascade,
  role public.organization_role not null default 'member',
  created_at timestamptz not null default now(),
  primary key (organization_id, user_id)
);
comment on table public.organization_members is 'Who belongs to an organization. Only an admin may create and revoke its API keys.';

create index organization_members_user_id_idx on public.organization_members (user_id);

create function private.administered_organizations() returns setof uuid
language sql stable set search_path = ''
as $$
  select m.organization_id
  from public.organization_members m
  where m.user_id = (select auth.uid()) and m.role = 'admin'
$$;
comment on function private.administered_organizations is 'The organizations that the signed-in person administers.';
revoke execute on function private.administered_organizations from public, anon, authenticated, service_role;
grant execute on function private.administered_organizations to authenticated;

alter table public.organizations enable row level security;
alter table public.organization_members enable row level security;

create policy select_member on public.organizations for select to authenticated
  using (id in (select m.organization_id from public.organization_members m where m.user_id = (select auth.uid())));
create policy select_own on public.organization_members for select to authenticated
  using (user_id = (select auth.uid()));

revoke all on public.organizations, public.organization_members from public, anon, authenticated, service_role;
grant select on public.organizations, public.organization_members to authenticated;
grant select, insert, update, delete on public.organizations, public.organization_members to service_role;
