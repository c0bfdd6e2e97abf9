-- The limit of a key: sixty requests a minute, exactly. In no span of 60 seconds are more
-- than 60 accepted, and none is refused while fewer than 60 were accepted in the 60 seconds before it.
-- A fixed window lets 120 through around its edge, a token bucket and a weighted window 119, and it
-- refuses lawful requests. So the times themselves are kept: at most sixty a key, in one row, updated
-- in place (nothing but the key is indexed, and half of each page is left free for the new version).

create table private.rate_limits (
  organization_id uuid not null,
  api_key_id uuid not null,
  accepted_at timestamptz[] not null default '{}',
  primary key (organization_id, api_key_id),
  foreign key (organization_id, api_key_id) references private.api_keys on delete cascade
) with (fillfactor = 50);
comment on table private.rate_limits is 'One row for each key, made with it: when its accepted requests of the last minute arrived, oldest first. The last element is when the key was last used.';
alter table private.rate_limits enable row level security;
revoke all on private.rate_limits from public, anon, authenticated, service_role;

create function private.count_request(
  organization_id uuid,
  api_key_id uuid,
  out accepted boolean,
  out remaining integer,
  out reset integer
)
-- Otherwise one locked row could exhaust the Data API's pool and block every key.
language plpgsql volatile set search_path = '' set lock_timeout = '2s'
as $$
declare
  quota constant integer := 60;
  span constant interval := '60 seconds';
  times timestamptz[];
  clock timestamptz;
  arrival timestamptz;
begin
  select r.accepted_at into times
  from private.rate_limits r
  where r.organization_id = count_request.organization_id and r.api_key_id = count_request.api_key_id
  for update;

  -- Only now, when it is this request's turn: now() is the transaction's start, and would give a request
  -- that has waited a time before those that it waited for.
  clock := clock_timestamp();
  -- Never before the last time kept, so that a clock set back does not reopen the window. But times
  -- further ahead than the window come from a clock that was wrong, and would lock the key out.
  times := array(select t from unnest(times) as t where t <= clock + span order by t);
  arrival := greatest(clock, times[cardinality(times)]);
  times := array(select t from unnest(times) as t where t > arrival - span order by t);
  accepted := cardinality(times) < quota;
  if accepted then
    times := times || arrival;
    update private.rate_limits r set accepted_at = times
    where r.organization_id = count_request.organization_id and r.api_key_id = count_request.api_key_id;
  end if;
  remaining := quota - cardinality(times);
  reset := greatest(1, ceil(extract(epoch from times[1] + span - clock)));
end
$$;
comment on function private.count_request is 'Counts a request against its key''s limit, or refuses it; holds the key''s row until the transaction ends. reset: whole seconds, rounded up, until the oldest counted request leaves the window.';
revoke execute on function private.count_request from public, anon, authenticated, service_role;
