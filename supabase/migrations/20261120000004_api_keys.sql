-- API keys: what is stored about them, and what each was used for.
--
-- The hash has a table of its own, because it is looked up before the organization is known.

create table private.api_keys (
  organization_id uuid not null references public.organizations on delete cascade,
  -- Unique within the organization only, so that nobody can find out the ids of others.
  id uuid not null default gen_random_uuid(),
  name text not null check (char_length(name) between 1 and 100),
  hint text not null,
  -- No foreign keys to auth.users: the record outlives the account.
  created_by uuid,
  created_by_email text,
  created_at timestamptz not null default now(),
  revoked_by uuid,
  revoked_by_email text,
  revoked_at timestamptz,
  -- Null is never. It only changes to become earlier, when the key is rotated.
  -- Five years are counted in UTC, so that a dump can be restored in any time zone.
  expires_at timestamptz check (expires_at at time zone 'UTC' <= created_at at time zone 'UTC' + interval '5 years'),
  -- The key that rotate_api_key made in its place.
  successor_id uuid,
  primary key (organization_id, id),
  unique (organization_id, successor_id),
  foreign key (organization_id, successor_id) references private.api_keys
);
comment on table private.api_keys is 'One row for each API key ever created. No token can be derived from it. Active until revoked_at or expires_at.';
comment on column private.api_keys.hint is 'The token''s first seven and last four characters, by which people recognize it.';
comment on column private.api_keys.created_by_email is 'The e-mail address of created_by at that time.';
comment on column private.api_keys.revoked_by_email is 'The e-mail address of revoked_by at that time.';
alter table private.api_keys enable row level security;
revoke all on private.api_keys from public, anon, authenticated, service_role;

create table private.api_key_hashes (
  token_hash bytea primary key check (octet_length(token_hash) = 32),
  organization_id uuid not null,
  api_key_id uuid not null,
  unique (organization_id, api_key_id),
  foreign key (organization_id, api_key_id) references private.api_keys on delete cascade
);
comment on table private.api_key_hashes is 'SHA-256 of each token, and the key it belongs to. The only table whose key does not start with the organization, because it leads there. A token has 190 random bits, so a fast hash is enough: trying tokens is hopeless.';
alter table private.api_key_hashes enable row level security;
revoke all on private.api_key_hashes from public, anon, authenticated, service_role;

create table private.log_reads (
  organization_id uuid not null references public.organizations on delete cascade,
  -- An API key's id, or that of an administrator who read in the console.
  reader_id uuid not null,
  day date not null,
  -- The administrator's e-mail address at that time; null for an API key.
  email text,
  requests integer not null,
  invalid_requests integer not null,
  entries bigint not null,
  first_at timestamptz not null,
  last_at timestamptz not null,
  last_address inet,
  primary key (organization_id, reader_id, day)
);
comment on table private.log_reads is 'Who read an organization''s log, by UTC day: accepted requests, how many of them were invalid (400), entries delivered, first and last time, last client address. Kept for 400 days. An API key''s latest day is in private.rate_limits until the key is used on a later day.';
comment on column private.log_reads.last_address is 'The client address that the platform''s gateway reported last.';
create index log_reads_day_idx on private.log_reads (day);
alter table private.log_reads enable row level security;
revoke all on private.log_reads from public, anon, authenticated, service_role;

create function private.count_read(organization_id uuid, reader_id uuid, email text, entries integer) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
  insert into private.log_reads as r (
    organization_id, reader_id, day, email, requests, invalid_requests, entries, first_at, last_at
  )
  values (
    count_read.organization_id, count_read.reader_id, (clock_timestamp() at time zone 'UTC')::date, count_read.email,
    1, 0, count_read.entries, clock_timestamp(), clock_timestamp()
  )
  on conflict on constraint log_reads_pkey do update
  set requests = r.requests + 1, entries = r.entries + excluded.entries, last_at = excluded.last_at;
end
$$;
comment on function private.count_read is 'Counts a page that an administrator read.';
revoke execute on function private.count_read from public, anon, authenticated, service_role;
