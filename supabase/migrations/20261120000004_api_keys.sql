-- API keys: what is kept of them.
--
-- The hash lives in a table of its own: it is looked up before anybody knows whose key it is.

create table private.api_keys (
  organization_id uuid not null references public.organizations on delete cascade,
  -- Unique in its organization only: another's use of an id cannot be seen.
  id uuid not null default gen_random_uuid(),
  name text not null check (char_length(name) between 1 and 100),
  hint text not null,
  -- No foreign keys to auth.users: what somebody did outlives their account.
  created_by uuid,
  created_by_email text,
  created_at timestamptz not null default now(),
  revoked_by uuid,
  revoked_by_email text,
  revoked_at timestamptz,
  primary key (organization_id, id)
);
comment on table private.api_keys is 'One row per API key ever made. Holds nothing from which a token could be found. Active while revoked_at is null.';
comment on column private.api_keys.hint is 'The token''s first seven and last four characters, to recognize it by.';
comment on column private.api_keys.created_by_email is 'The address that created_by had then.';
comment on column private.api_keys.revoked_by_email is 'The address that revoked_by had then.';
alter table private.api_keys enable row level security;
revoke all on private.api_keys from public, anon, authenticated, service_role;

create table private.api_key_hashes (
  token_hash bytea primary key check (octet_length(token_hash) = 32),
  organization_id uuid not null,
  api_key_id uuid not null,
  unique (organization_id, api_key_id),
  foreign key (organization_id, api_key_id) references private.api_keys on delete cascade
);
comment on table private.api_key_hashes is 'SHA-256 of each token, and whose it is: the one table that does not begin with the organization, because it leads there. A token has 190 random bits, so a plain fast hash cannot be searched.';
alter table private.api_key_hashes enable row level security;
revoke all on private.api_key_hashes from public, anon, authenticated, service_role;
