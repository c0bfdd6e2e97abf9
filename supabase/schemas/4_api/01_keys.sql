-- API keys: what is stored about them, their rate limit, and what each was used for on its latest day.

create table audit_log_private.api_keys (
  organization_id uuid not null references audit_log.organizations on delete cascade,
  -- Unique within the organization only, so that nobody can find out the ids of others.
  id uuid not null default gen_random_uuid(),
  name text not null check (char_length(name) between 1 and 100),
  -- The token's first seven and last four characters, by which people recognize it.
  hint text not null,
  -- Ids of people, as caller() gives them, and their addresses at that time. Whoever created a key is its owner.
  created_by text,
  created_by_email text,
  -- Whether the owner had an account in this project's Auth. Others have ids that are never found there.
  owner_has_account boolean not null default false,
  owner_left_at timestamptz,
  created_at timestamptz not null default now(),
  revoked_by text,
  revoked_by_email text,
  revoked_at timestamptz,
  -- Null: the key never expires. Only a rotation changes it, to an earlier time.
  expires_at timestamptz,
  successor_id uuid,
  primary key (organization_id, id),
  unique (organization_id, successor_id),
  foreign key (organization_id, successor_id) references audit_log_private.api_keys
);
comment on table audit_log_private.api_keys is
  'One row for each API key ever created. No token can be derived from it. Live until revoked_at or expires_at.';

create function audit_log_private.is_live(revoked_at timestamptz, expires_at timestamptz) returns boolean
-- Volatile and without settings, so that Postgres inlines it.
language sql volatile
return revoked_at is null and (expires_at is null or expires_at > pg_catalog.clock_timestamp());
comment on function audit_log_private.is_live is 'Whether a key with these times is neither revoked nor expired.';

create table audit_log_private.api_key_hashes (
  token_hash bytea primary key check (octet_length(token_hash) = 32),
  organization_id uuid not null,
  api_key_id uuid not null,
  unique (organization_id, api_key_id),
  foreign key (organization_id, api_key_id) references audit_log_private.api_keys on delete cascade
);
comment on table audit_log_private.api_key_hashes is 'SHA-256 of each token: fast, as tokens have 190 random bits.';

create function audit_log_private.quota() returns integer
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return 60;
end $$;
comment on function audit_log_private.quota is
  'How many requests each key has in any 60 seconds. To change it, replace this function in a migration of yours.';

-- The times of a key's counted requests (docs/design.md says why), in a row that is updated in place: half of each
-- block is left free, and no indexed column changes. It also has the key's use, so that counting costs one write.
create table audit_log_private.rate_limits (
  organization_id uuid not null,
  api_key_id uuid not null,
  counted_at timestamptz[] not null default '{}',
  -- The UTC day of the latest counted request, if any, and the use on that day. Earlier days are in log_reads.
  day date,
  requests integer not null default 0,
  invalid_requests integer not null default 0,
  -- Refused (429) since the first counted one of that day.
  refused_requests integer not null default 0,
  entries bigint not null default 0,
  first_at timestamptz,
  last_at timestamptz,
  last_address inet,
  -- How the key last read entries: feed (after) or pages. Null until then.
  read_mode text,
  -- When the feed last told this key that it has no more entries.
  caught_up_at timestamptz,
  primary key (organization_id, api_key_id),
  foreign key (organization_id, api_key_id) references audit_log_private.api_keys on delete cascade
) with (fillfactor = 50);
comment on table audit_log_private.rate_limits is 'A key''s requests of the last 60 seconds, and its last day of use.';

create function audit_log_private.count_request(
  organization_id uuid, api_key_id uuid, client_address inet default null,
  -- What the request has read, as in audit_log_private.reading; not given if it is counted before it reads.
  read_decision text default 'accepted', entries integer default 0, read_mode text default null,
  has_more boolean default null,
  -- counted, rate_limited, or unauthorized when the key is not live any more. Then the others are not given.
  out outcome text, out remaining integer, out reset integer
)
-- Otherwise one locked row could exhaust the Data API's pool and block every key.
language plpgsql volatile set search_path = pg_catalog, pg_temp set lock_timeout = '2s' as $$
declare
  quota constant integer := audit_log_private.quota();
  -- Fixed: the contract promises requests a minute.
  span constant interval := interval '60 seconds';
  use audit_log_private.rate_limits;
  times timestamptz[];
  clock timestamptz;
  arrival timestamptz;
  today date;
begin
  select r.* into use from audit_log_private.rate_limits r
  where r.organization_id = count_request.organization_id and r.api_key_id = count_request.api_key_id
  for update;

  -- Checked after the lock, so that nothing is counted from the commit of a revocation or the moment of expiry on.
  perform from audit_log_private.api_keys k
  where k.organization_id = count_request.organization_id and k.id = count_request.api_key_id
    and audit_log_private.is_live(k.revoked_at, k.expires_at);
  if not found then
    outcome := 'unauthorized';
    return;
  end if;

  -- Not now(), which is the start of the transaction: a request that waited would be dated before those it waited for.
  clock := clock_timestamp();
  -- Never before the last stored time, so that a clock set back does not reopen the window. Times further
  -- ahead than the window are dropped: they come from a clock that was wrong, and would lock the key out.
  arrival := greatest(clock, use.counted_at[cardinality(use.counted_at)]);
  if arrival > clock + span then
    select greatest(clock, max(t)) into arrival from unnest(use.counted_at) as t where t <= clock + span;
  end if;
  times := array(select t from unnest(use.counted_at) as t where t > arrival - span and t <= arrival order by t);
  if cardinality(times) < quota then
    outcome := 'counted';
    times := times || arrival;
    today := arrival at time zone 'UTC';
    if use.day is distinct from today then
      if use.day is not null then
        perform audit_log_private.add_log_read(
          organization_id => use.organization_id, reader_id => use.api_key_id, day => use.day,
          requests => use.requests, invalid_requests => use.invalid_requests, entries => use.entries,
          first_at => use.first_at, last_at => use.last_at, last_address => use.last_address
        );
      end if;
      select 0, 0, 0, 0, arrival, null::inet
      into use.requests, use.invalid_requests, use.refused_requests, use.entries, use.first_at, use.last_address;
    end if;
    update audit_log_private.rate_limits r
    set counted_at = times, day = today, requests = use.requests + 1,
      invalid_requests = use.invalid_requests + (read_decision <> 'accepted')::integer,
      refused_requests = use.refused_requests,
      entries = use.entries + count_request.entries,
      first_at = use.first_at, last_at = arrival,
      last_address = coalesce(client_address, use.last_address),
      read_mode = coalesce(count_request.read_mode, use.read_mode),
      caught_up_at = case when not has_more then arrival else use.caught_up_at end
    where r.organization_id = count_request.organization_id and r.api_key_id = count_request.api_key_id;
  else
    outcome := 'rate_limited';
    update audit_log_private.rate_limits r set refused_requests = r.refused_requests + 1
    where r.organization_id = count_request.organization_id and r.api_key_id = count_request.api_key_id;
  end if;
  remaining := greatest(0, quota - cardinality(times));
  -- The next request is possible when this time leaves the window. If the quota was lowered, it is not the oldest one.
  reset := greatest(1, ceil(extract(epoch from times[greatest(1, cardinality(times) - quota + 1)] + span - clock)));
end $$;
comment on function audit_log_private.count_request is
  'Counts a request, or refuses it. Locks the key''s row. reset: seconds until one more is possible.';
