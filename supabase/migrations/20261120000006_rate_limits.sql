-- The rate limit of a key is exact: no span of 60 seconds has more than quota() accepted requests, and no request
-- is refused while fewer were accepted in the 60 seconds before it. So each key has one row with the times of its
-- accepted requests. (docs/design.md says how many the usual algorithms let through.) It is updated in place: half of
-- each page is left free for the new version, and no indexed column changes. The same row counts the use of the key,
-- so that counting costs no second write.

create function audit_log_private.quota() returns integer
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return 60;
end $$;
comment on function audit_log_private.quota is 'How many requests a minute each key has. To change it, replace this function: nothing else knows the number.';

create table audit_log_private.rate_limits (
  organization_id uuid not null,
  api_key_id uuid not null,
  accepted_at timestamptz[] not null default '{}',
  -- The UTC day of the latest accepted request, and the key's use on that day. Earlier days are in
  -- log_reads. Null until the first request.
  day date,
  requests integer not null default 0,
  invalid_requests integer not null default 0,
  refused_requests integer not null default 0,
  entries bigint not null default 0,
  first_at timestamptz,
  last_at timestamptz,
  last_address inet,
  -- How the key last read entries: feed (after) or pages. Null until then.
  reads text,
  caught_up_at timestamptz,
  primary key (organization_id, api_key_id),
  foreign key (organization_id, api_key_id) references audit_log_private.api_keys on delete cascade
) with (fillfactor = 50);
comment on table audit_log_private.rate_limits is 'One row for each key, created with it: the times of its accepted requests of the last minute, oldest first, and its use on its latest day. The last time is when the key was last used.';
comment on column audit_log_private.rate_limits.refused_requests is 'How many requests were refused (429) since the first accepted one of that day. For metrics().';
comment on column audit_log_private.rate_limits.caught_up_at is 'When the feed last told this key that it has no more entries.';

create function audit_log_private.count_request(
  organization_id uuid, api_key_id uuid, is_valid boolean default true, entries integer default 0, client_address inet default null,
  -- As in the table; null for other requests.
  reads text default null,
  is_caught_up boolean default false,
  -- Null when the key is not active any more.
  out accepted boolean, out remaining integer, out reset integer
)
-- Otherwise one locked row could exhaust the Data API's pool and block every key.
language plpgsql volatile set search_path = pg_catalog, pg_temp set lock_timeout = '2s' as $$
declare
  quota constant integer := audit_log_private.quota();
  span constant interval := '60 seconds';
  use audit_log_private.rate_limits;
  times timestamptz[];
  clock timestamptz;
  arrival timestamptz;
  today date;
begin
  select r.* into use from audit_log_private.rate_limits r
  where r.organization_id = count_request.organization_id and r.api_key_id = count_request.api_key_id
  for update;

  -- Checked after the lock, so that nothing is accepted from the commit of a revocation or the moment of
  -- expiry on.
  perform from audit_log_private.api_keys k
  where k.organization_id = count_request.organization_id
    and k.id = count_request.api_key_id
    and k.revoked_at is null
    and (k.expires_at is null or k.expires_at > clock_timestamp());
  if not found then
    return;
  end if;

  -- Not now(), which is the start of the transaction: a request that waited would be dated before those it
  -- waited for.
  clock := clock_timestamp();
  -- Never before the last stored time, so that a clock set back does not reopen the window. Times further
  -- ahead than the window are dropped: they come from a clock that was wrong, and would lock the key out.
  arrival := greatest(clock, use.accepted_at[cardinality(use.accepted_at)]);
  if arrival > clock + span then
    select greatest(clock, max(t)) into arrival from unnest(use.accepted_at) as t where t <= clock + span;
  end if;
  times := array(select t from unnest(use.accepted_at) as t where t > arrival - span and t <= arrival order by t);
  accepted := cardinality(times) < quota;
  if accepted then
    times := times || arrival;
    today := arrival at time zone 'UTC';
    if use.day is distinct from today then
      if use.day is not null then
        perform audit_log_private.add_log_read((
          use.organization_id, false, use.api_key_id, use.day, null, null, use.requests, use.invalid_requests, use.entries,
          use.first_at, use.last_at, use.last_address
        ));
      end if;
      select 0, 0, 0, 0, arrival, null
      into use.requests, use.invalid_requests, use.refused_requests, use.entries, use.first_at, use.last_address;
    end if;
    update audit_log_private.rate_limits r
    set accepted_at = times, day = today, requests = use.requests + 1,
      invalid_requests = use.invalid_requests + (not is_valid)::integer, refused_requests = use.refused_requests,
      entries = use.entries + count_request.entries,
      first_at = use.first_at, last_at = arrival, last_address = coalesce(client_address, use.last_address),
      reads = coalesce(count_request.reads, use.reads), caught_up_at = case when is_caught_up then arrival else use.caught_up_at end
    where r.organization_id = count_request.organization_id and r.api_key_id = count_request.api_key_id;
  else
    update audit_log_private.rate_limits r set refused_requests = r.refused_requests + 1
    where r.organization_id = count_request.organization_id and r.api_key_id = count_request.api_key_id;
  end if;
  remaining := greatest(0, quota - cardinality(times));
  -- The next request is possible when this time leaves the window. If the quota was lowered, it is not the oldest one.
  reset := greatest(1, ceil(extract(epoch from times[greatest(1, cardinality(times) - quota + 1)] + span - clock)));
end $$;
comment on function audit_log_private.count_request is 'Counts a request against its key''s limit and in its use, or refuses it. Locks the key''s row until the transaction ends. reset: seconds, rounded up, until the oldest counted request leaves the window.';
