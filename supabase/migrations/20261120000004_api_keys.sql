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
  created_by uuid references auth.users on delete set null,
  created_at timestamptz not null default now(),
  revoked_by uuid references auth.users on delete set null,
  revoked_at timestamptz
);
comment on table public.api_keys is 'One row per API key ever made. Holds nothing from which a token could be found. Active while revoked_at is null.';
comment on column public.api_keys.hint is 'The token''s first seven and last four characters, to recognize it by.';

create index api_keys_organization_id_idx on public.api_keys (organization_id);
create index api_keys_created_by_idx on public.api_keys (created_by);
create index api_keys_revoked_by_idx on public.api_keys (revoked_by);

alter table public.api_keys enable row level security;
create policy select_admin on public.api_keys for select to authenticated
  using (organization_id in (select private.administered_organizations()));
revoke all on public.api_keys from public, anon, authenticated, service_role;
grant select on public.api_keys to authenticated, service_role;

create table private.api_key_hashes (
  token_hash bytea primary key check (octet_length(token_hash) = 32),
  api_key_id uuid not null unique references public.api_keys on delete cascade
);
comment on table private.api_key_hashes is 'SHA-256 of each token. A token has 190 random bits, so a plain fast hash cannot be searched.';
alter table private.api_key_hashes enable row level security;
create policy nobody on private.api_key_hashes using (false);
revoke all on private.api_key_hashes from public, anon, authenticated, service_role;
grant select on private.api_key_hashes to service_role;
