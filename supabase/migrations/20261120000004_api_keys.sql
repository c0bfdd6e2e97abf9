-- API keys: what is kept of them.
--
-- The hash lives in a table of its own, not in a hidden column: what an administrator may list and
-- what nobody may read are then two different things with two different grants.

create table public.api_keys (
  id uuid primary key default gen_random_uuid(),
  organization_id uuid not null references public.organizations on delete cascade,
  -- Not blank: at least one character that is no space of any script, and none without a width.
  name text not null constraint name_is_not_blank
    check (name ~ '[^\s\u00a0\u1680\u2000-\u200d\u2028\u2029\u202f\u205f\u3000\ufeff]')
    constraint name_is_short check (char_length(name) <= 100),
  hint text not null,
  created_by uuid default auth.uid() references auth.users on delete set null,
  created_by_email text default auth.jwt() ->> 'email',
  created_at timestamptz not null default now(),
  revoked_by uuid references auth.users on delete set null,
  revoked_at timestamptz
);
comment on table public.api_keys is 'One row per API key ever made. Holds nothing from which a token could be found. Active while revoked_at is null.';
comment on column public.api_keys.hint is 'The token''s first seven and last four characters, to recognize it by.';
comment on column public.api_keys.created_by_email is 'The address that created_by had then. Stays when the account goes.';

create index api_keys_organization_id_idx on public.api_keys (organization_id);
create index api_keys_created_by_idx on public.api_keys (created_by);
create index api_keys_revoked_by_idx on public.api_keys (revoked_by);

create table private.api_key_hashes (
  token_hash bytea primary key check (octet_length(token_hash) = 32),
  api_key_id uuid not null unique references public.api_keys on delete cascade
);
comment on table private.api_key_hashes is 'SHA-256 of each token. A token has 190 random bits, so a plain fast hash cannot be searched.';

-- A key without a token cannot be: only create_api_key reaches the other table.
alter table public.api_keys add constraint api_key_has_hash
  foreign key (id) references private.api_key_hashes (api_key_id) deferrable initially deferred;

alter table public.api_keys enable row level security;
create policy select_admin on public.api_keys for select to authenticated
  using (organization_id in (select private.administered_organizations()));
create policy insert_admin on public.api_keys for insert to authenticated
  with check (organization_id in (select private.administered_organizations()));
-- Revoking is the only change there is. It cannot be undone, dated otherwise, or signed by another.
create policy revoke_admin on public.api_keys for update to authenticated
  using (revoked_at is null and organization_id in (select private.administered_organizations()))
  with check (revoked_at = now() and revoked_by = (select auth.uid()));
revoke all on public.api_keys from public, anon, authenticated, service_role;
grant select, insert (id, organization_id, name, hint), update (revoked_at, revoked_by) on public.api_keys to authenticated;
grant select on public.api_keys to service_role;

alter table private.api_key_hashes enable row level security;
create policy insert_admin on private.api_key_hashes for insert to authenticated
  with check (api_key_id in (select k.id from public.api_keys k));
revoke all on private.api_key_hashes from public, anon, authenticated, service_role;
grant insert on private.api_key_hashes to authenticated;
grant select on private.api_key_hashes to service_role;
