-- One request to the API is one call of public_audit_log: whose token is it, then everything else within
-- that organization, in one call: the key, the page, the count. It answers with a decision and never
-- raises one: a raise would undo the count.
-- No caller can name an organization. It follows from the hash of the token, and from nothing else.

create function private.find_api_key(token_hash bytea, out organization_id uuid, out api_key_id uuid)
-- plpgsql, because it keeps its plans from call to call.
language plpgsql stable security definer set search_path = ''
as $$
begin
  select h.organization_id, h.api_key_id into organization_id, api_key_id
  from private.api_key_hashes h
  where h.token_hash = find_api_key.token_hash;
end
$$;
comment on function private.find_api_key is 'The key of a token, active or not; nulls when there is none.';
revoke execute on function private.find_api_key from public, anon, authenticated, service_role;
grant execute on function private.find_api_key to service_role;

create function private.read_page(
  organization_id uuid,
  start_date date,
  end_date date,
  action public.audit_action,
  page_limit integer,
  page_offset bigint,
  newest_first boolean
) returns json
-- Stable: all its statements see the snapshot of the one that calls it, so that total and items belong
-- to the same moment. plpgsql keeps its plans from call to call, if it is told not to make new ones.
language plpgsql stable set search_path = '' set plan_cache_mode = 'force_generic_plan'
as $$
declare
  total bigint;
  items text;
  range_end constant timestamptz := (end_date + 1)::timestamp at time zone 'UTC';
  page_size integer;
  -- Where the page begins: so many entries, oldest first, after the beginning of the range; then of a
  -- day; then of an hour. Those of the hour are passed over, all others never touched.
  skip bigint;
  first_day date;
  first_hour timestamptz;
begin
  select coalesce(sum(c.entries), 0) into total
  from private.entry_counts c
  where c.organization_id = read_page.organization_id
    and c.day between start_date and end_date
    and (read_page.action is null or c.action = read_page.action);

  page_size := greatest(0, least(page_limit, total - page_offset));
  if page_size = 0 then
    return json_build_object('total', total, 'items', '[]');
  end if;
  skip := case when newest_first then total - page_offset - page_size else page_offset end;

  select d.day, skip - (d.running_total - d.entries) into strict first_day, skip
  from (
    select c.day, sum(c.entries) as entries, sum(sum(c.entries)::integer) over (order by c.day) as running_total
    from private.entry_counts c
    where c.organization_id = read_page.organization_id
      and c.day between start_date and end_date
      and (read_page.action is null or c.action = read_page.action)
    group by c.day
  ) as d
  where d.running_total > skip
  order by d.day
  limit 1;

  select first_day::timestamp at time zone 'UTC' + h.hour * interval '1 hour', skip - (h.running_total - h.entries)
  into strict first_hour, skip
  from (
    select u.hour - 1 as hour, sum(u.entries) as entries, sum(sum(u.entries)::integer) over (order by u.hour) as running_total
    from private.entry_counts c cross join unnest(c.hours) with ordinality as u (entries, hour)
    where c.organization_id = read_page.organization_id
      and c.day = first_day
      and (read_page.action is null or c.action = read_page.action)
    group by u.hour
  ) as h
  where h.running_total > skip
  order by h.hour
  limit 1;

  select coalesce(
    string_agg(i.item, ',' order by i.created_at, i.id) filter (where not newest_first),
    string_agg(i.item, ',' order by i.created_at desc, i.id desc) filter (where newest_first)
  )
  into strict items
  from (
    select
      e.created_at,
      e.id,
      -- Put together as text: in half the time of json_build_object, and without its spaces.
      '{"id":"' || e.id
        || '","created_at":"' || to_char(e.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
        || '","action":"' || e.action
        || '","user_email":' || to_json(e.user_email)
        || ',"agent_name":' || to_json(e.agent_name)
        || ',"data":' || e.data
        || '}' as item
    from (
      -- Two branches for two indexes; the one whose first condition is false is never started. Rows are
      -- compared in the second, so that no other index fits its order: a kept plan knows no sizes.
      (
        select e.* from public.audit_entries e
        where read_page.action is null
          and e.organization_id = read_page.organization_id
          and e.created_at >= first_hour and e.created_at < range_end
        order by e.created_at, e.id
        limit page_size offset skip
      )
      union all
      (
        select e.* from public.audit_entries e
        where read_page.action is not null
          and e.organization_id = read_page.organization_id
          and (e.action, e.created_at) >= (read_page.action, first_hour)
          and (e.action, e.created_at) < (read_page.action, range_end)
        order by e.action, e.created_at, e.id
        limit page_size offset skip
      )
    ) as e
  ) as i;
  -- The items stay text: the function passes them on unread, so a number in data keeps every digit.
  return json_build_object('total', total, 'items', '[' || items || ']');
end
$$;
comment on function private.read_page is 'The entries of one organization in a range of UTC days, both inclusive: {total, items}, how many, and one page of them as the text of a JSON array.';
revoke execute on function private.read_page from public, anon, authenticated, service_role;

create function private.answer_request(
  organization_id uuid,
  api_key_id uuid,
  start_date date,
  end_date date,
  action public.audit_action,
  page_limit integer,
  page_offset bigint,
  newest_first boolean
) returns json
language plpgsql volatile security definer set search_path = ''
as $$
declare
  looks_exhausted boolean;
  request record;
  page json;
begin
  select coalesce(
    r.accepted_at[cardinality(r.accepted_at) - 59] > clock_timestamp() - interval '60 seconds', false
  )
  into looks_exhausted
  from private.api_keys k
  join private.rate_limits r on r.organization_id = k.organization_id and r.api_key_id = k.id
  where k.organization_id = answer_request.organization_id
    and k.id = answer_request.api_key_id
    and k.revoked_at is null;
  if not found then
    return json_build_object('decision', 'unauthorized');
  end if;

  -- The page before the count, although it may then be for nothing: counting takes the key's row until
  -- the end, and requests of one key would wait for each other's pages. A key that looks exhausted gets
  -- none. Without dates there is none to read: the function has found its query string invalid, and
  -- answers 400 to a caller who is let in and 401 or 429 to one who is not.
  if start_date is not null and not looks_exhausted then
    page := private.read_page(
      organization_id, start_date, end_date, action, page_limit, page_offset, newest_first
    );
  end if;
  request := private.count_request(organization_id, api_key_id);

  -- Once more, after the wait for its turn: from the commit of a revocation on, nothing is accepted.
  perform from private.api_keys k
  where k.organization_id = answer_request.organization_id
    and k.id = answer_request.api_key_id
    and k.revoked_at is null;
  if not found then
    return json_build_object('decision', 'unauthorized');
  end if;
  if not request.accepted then
    return json_build_object('decision', 'rate_limited', 'api_key_id', api_key_id, 'reset', request.reset);
  end if;
  if start_date is not null and page is null then
    page := private.read_page(
      organization_id, start_date, end_date, action, page_limit, page_offset, newest_first
    );
  end if;
  return json_build_object(
    'decision', 'accepted',
    'api_key_id', api_key_id,
    'organization_id', organization_id,
    'remaining', request.remaining,
    'reset', request.reset,
    'page', page
  );
end
$$;
comment on function private.answer_request is 'Answers one request with a key of one organization, as public_audit_log says.';
revoke execute on function private.answer_request from public, anon, authenticated, service_role;
grant execute on function private.answer_request to service_role;

create function public.public_audit_log(
  token_hash text,
  start_date date default null,
  end_date date default null,
  action public.audit_action default null,
  page_limit integer default 100,
  page_offset bigint default 0,
  newest_first boolean default false
) returns json
language plpgsql volatile set search_path = ''
as $$
declare
  key constant record := private.find_api_key(decode(token_hash, 'hex'));
begin
  if key.api_key_id is null then
    return json_build_object('decision', 'unauthorized');
  end if;
  return private.answer_request(
    key.organization_id, key.api_key_id, start_date, end_date, action, page_limit, page_offset, newest_first
  );
end
$$;
comment on function public.public_audit_log is 'Answers one request of the public audit log: unauthorized, rate_limited, or accepted with a page. token_hash: SHA-256 in hexadecimal. For the Edge Function alone.';
revoke execute on function public.public_audit_log from public, anon, authenticated, service_role;
grant execute on function public.public_audit_log to service_role;
