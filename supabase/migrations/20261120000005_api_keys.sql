-- API keys: what is stored about them, and what each was used for.
--
-- The hash has a table of its own, because it is looked up before the organization is known.

create table audit_log_private.api_keys (
  organization_id uuid not null references audit_log.organizations on delete cascade,
  -- Unique within the organization only, so that nobody can find out the ids of others.
  id uuid not null default gen_random_uuid(),
  name text not null check (char_length(name) between 1 and 100),
  hint text not null,
  -- Ids of people, as caller() gives them.
  created_by text,
  created_by_email text,
  created_at timestamptz not null default now(),
  revoked_by text,
  revoked_by_email text,
  revoked_at timestamptz,
  -- Who has answered for the key since its maker left, and when whoever answers for it left.
  confirmed_by text,
  confirmed_by_email text,
  maker_left_at timestamptz,
  -- Null: the key never expires. Only a rotation changes it, to an earlier time.
  -- Five years are counted in UTC, so that a dump can be restored in any time zone.
  expires_at timestamptz check (expires_at at time zone 'UTC' <= created_at at time zone 'UTC' + interval '5 years'),
  -- The key that rotate_api_key made in its place.
  successor_id uuid,
  primary key (organization_id, id),
  unique (organization_id, successor_id),
  foreign key (organization_id, successor_id) references audit_log_private.api_keys
);
comment on table audit_log_private.api_keys is 'One row for each API key ever created. No token can be derived from it. Active until revoked_at or expires_at.';
comment on column audit_log_private.api_keys.hint is 'The token''s first seven and last four characters, by which people recognize it.';
comment on column audit_log_private.api_keys.created_by_email is 'The e-mail address of created_by at that time.';
comment on column audit_log_private.api_keys.revoked_by_email is 'The e-mail address of revoked_by at that time.';

create function audit_log_private.is_active(revoked_at timestamptz, expires_at timestamptz) returns boolean
-- Volatile and without settings, so that Postgres inlines it.
language sql volatile
return revoked_at is null and (expires_at is null or expires_at > pg_catalog.clock_timestamp());
comment on function audit_log_private.is_active is 'Whether a key with these times is neither revoked nor expired at this moment.';

create table audit_log_private.api_key_hashes (
  token_hash bytea primary key check (octet_length(token_hash) = 32),
  organization_id uuid not null,
  api_key_id uuid not null,
  unique (organization_id, api_key_id),
  foreign key (organization_id, api_key_id) references audit_log_private.api_keys on delete cascade
);
comment on table audit_log_private.api_key_hashes is 'SHA-256 of each token, and the key it belongs to. The only table whose key does not start with the organization, because it leads there. A token has 190 random bits, so a fast hash is enough: trying tokens is hopeless.';

create table audit_log_private.log_reads (
  organization_id uuid not null references audit_log.organizations on delete cascade,
  -- Whether an administrator read in the console, not an API key. Part of the key, because administrators
  -- choose the ids of API keys.
  is_person boolean not null,
  -- The API key's id, or a hash of user_id: a short key of fixed length, with which joins are fast.
  reader_id uuid not null,
  day date not null,
  user_id text,
  -- The administrator's e-mail address at that time.
  user_email text,
  requests integer not null,
  invalid_requests integer not null,
  entries bigint not null,
  first_at timestamptz not null,
  last_at timestamptz not null,
  last_address inet,
  primary key (organization_id, reader_id, day, is_person),
  check (is_person = (user_id is not null))
);
comment on table audit_log_private.log_reads is 'Who read an organization''s log, by UTC day: counted requests, how many of them were invalid (400), entries delivered, first and last time, last client address. Kept for 400 days. An API key''s latest day is in rate_limits until the key is used on a later day.';
comment on column audit_log_private.log_reads.last_address is 'The last client address that the Edge Function reported.';
create index log_reads_day_idx on audit_log_private.log_reads (organization_id, day);

create function audit_log_private.add_log_read(
  organization_id uuid, reader_id uuid, day date, requests integer, invalid_requests integer, entries bigint,
  first_at timestamptz, last_at timestamptz,
  last_address inet default null, user_id text default null, user_email text default null
) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  insert into audit_log_private.log_reads as r (
    organization_id, is_person, reader_id, day, user_id, user_email,
    requests, invalid_requests, entries, first_at, last_at, last_address
  )
  values (
    organization_id, user_id is not null, reader_id, day, user_id, user_email,
    requests, invalid_requests, entries, first_at, last_at, last_address
  )
  on conflict on constraint log_reads_pkey do update
  set requests = r.requests + excluded.requests,
    invalid_requests = r.invalid_requests + excluded.invalid_requests,
    entries = r.entries + excluded.entries,
    last_at = excluded.last_at,
    last_address = excluded.last_address;
end $$;
comment on function audit_log_private.add_log_read is 'Adds reads to those of the same reader and day. With a user_id, a person read; without, the API key reader_id.';

create function audit_log_private.count_read(organization_id uuid, entries integer) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  me constant record := audit_log_private.caller();
  clock constant timestamptz := clock_timestamp();
begin
  perform audit_log_private.add_log_read(
    organization_id => organization_id,
    reader_id => left(encode(sha256(convert_to(me.id, 'UTF8')), 'hex'), 32)::uuid,
    day => (clock at time zone 'UTC')::date,
    requests => 1, invalid_requests => 0, entries => entries,
    first_at => clock, last_at => clock,
    user_id => me.id, user_email => me.email
  );
end $$;
comment on function audit_log_private.count_read is 'Counts a page that the signed-in person read.';
