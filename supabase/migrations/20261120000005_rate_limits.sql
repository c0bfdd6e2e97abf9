-- Sixty requests a minute for each key, exactly: in no span of 60 seconds more than 60 accepted
-- requests, and no request refused while fewer than 60 were accepted in the 60 seconds before it.
-- A fixed window lets 120 through around its edge; a token bucket too; a weighted window 119, and it
-- refuses lawful requests. So the times themselves are kept: at most sixty a key, in one row, updated
-- in place (nothing but the key is indexed, and half of each page is left free for the new version).

create table private.rate_limits (
  api_key_id uuid primary key references public.api_keys on delete cascade,
  accepted_at timestamptz[] not null default '{}'
) with (fillfactor = 50);
comment on table private.rate_limits is 'One row for each key, made with it: when its accepted requests of the last minute arrived, oldest first. The last element is when the key was last used.';
alter table private.rate_limits enable row level security;
revoke all on private.rate_limits from public, anon, authenticated, service_role;
grant select, update on private.rate_limits to service_role;

create function private.count_request(
  api_key_id uuid,
  out accepted boolean,
  out remaining integer,
  out reset integer
)
-- A row that stays locked must not hold all of the Data API's connections, and with them every key.
language plpgsql volatile set search_path = '' set lock_timeout = '2s'
as $$
declare
  quota constant integer := 60;
  span constant interval := '60 seconds';
  times timestamptz[];
  arrival timestamptz;
begin
  select r.accepted_at into strict times
  from private.rate_limits r where r.api_key_id = count_request.api_key_id
  for update;

  -- Only now, when it is this request's turn: now() is the transaction's start, and the time before
  -- the lock would let a request that waited overtake one that did not. Never before the last time
  -- kept, so that a clock set back by a moment does not put the row out of order.
  arrival := greatest(clock_timestamp(), times[cardinality(times)]);
  times := array(select t from unnest(times) as t where t > arrival - span order by t);
  accepted := cardinality(times) < quota;
  if accepted then
    times := times || arrival;
    update private.rate_limits r set accepted_at = times where r.api_key_id = count_request.api_key_id;
  end if;
  remaining := quota - cardinality(times);
  reset := greatest(1, ceil(extract(epoch from times[1] + span - arrival)));
end
$$;
comment on function private.count_request is 'Counts a request against its key''s limit, or refuses it. reset: whole seconds, rounded up, until the oldest counted request leaves the window.';
revoke execute on function private.count_request from public, anon, authenticated, service_role;
grant execute on function private.count_request to service_role;
