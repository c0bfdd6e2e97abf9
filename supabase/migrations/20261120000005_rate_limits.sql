-- The limit of a key: sixty requests a minute, exactly. In no span of 60 seconds are more
-- than 60 accepted, and none is refused while fewer than 60 were accepted in the 60 seconds before it.
-- A fixed window lets 120 through around its edge, a token bucket and a weighted window 119, and it
-- refuses lawful requests. So the times themselves are kept: at most sixty a key, in one row, updated
-- in place (nothing but the key is indexed, and half of each page is left free for the new version).

create table private.rate_limits (
  api_key_id uuid primary key references public.api_keys on delete cascade,
  accepted_at timestamptz[] not null default '{}'
) with (fillfactor = 50);
comment on table private.rate_limits is 'One row for each key, made with it: when its accepted requests of the last minute arrived, oldest first. The last element is when the key was last used.';
alter table private.rate_limits enable row level security;
create policy select_admin on private.rate_limits for select to authenticated
  using (api_key_id in (select k.id from public.api_keys k));
create policy insert_admin on private.rate_limits for insert to authenticated
  with check (api_key_id in (select k.id from public.api_keys k));
revoke all on private.rate_limits from public, anon, authenticated, service_role;
grant select, insert (api_key_id) on private.rate_limits to authenticated;
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
  clock timestamptz;
  arrival timestamptz;
begin
  select r.accepted_at into times
  from private.rate_limits r where r.api_key_id = count_request.api_key_id
  for update;

  -- Only now, when it is this request's turn: now() is the transaction's start, and would give a request
  -- that has waited a time before those that it waited for. Never before the last time kept, so that a
  -- clock set back does not reopen the window.
  clock := clock_timestamp();
  arrival := greatest(clock, times[cardinality(times)]);
  times := array(select t from unnest(times) as t where t > arrival - span order by t);
  accepted := cardinality(times) < quota;
  if accepted then
    times := times || arrival;
    update private.rate_limits r set accepted_at = times where r.api_key_id = count_request.api_key_id;
  end if;
  remaining := quota - cardinality(times);
  reset := greatest(1, ceil(extract(epoch from times[1] + span - clock)));
end
$$;
comment on function private.count_request is 'Counts a request against its key''s limit, or refuses it; holds the key''s row until the transaction ends. reset: whole seconds, rounded up, until the oldest counted request leaves the window.';
revoke execute on function private.count_request from public, anon, authenticated, service_role;
grant execute on function private.count_request to service_role;
