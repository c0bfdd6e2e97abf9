-- One request to the API is one call of public_audit_log: find the key, count the request, read the
-- page. It answers with a decision and never raises one: a raise would undo the count.
-- No caller can name an organization. It follows from the hash of the token, and from nothing else.

create function private.read_page(
  organization_id uuid,
  start_date date,
  end_date date,
  action public.audit_action,
  page_limit integer,
  page_offset bigint,
  newest_first boolean,
  out total bigint,
  out items json
)
language sql stable set search_path = ''
as $$
  -- One statement, hence one snapshot. The branch whose condition is false is never started.
  with bounds as materialized (
    select
      read_page.start_date::timestamp at time zone 'UTC' as first,
      (read_page.end_date + 1)::timestamp at time zone 'UTC' as past_last
  ),
  page as (
    (
      select e.* from public.audit_entries e
      where not newest_first
        and e.organization_id = read_page.organization_id
        and e.created_at >= (select first from bounds) and e.created_at < (select past_last from bounds)
        and (read_page.action is null or e.action = read_page.action)
      order by e.created_at, e.id
      limit page_limit offset page_offset
    )
    union all
    (
      select e.* from public.audit_entries e
      where newest_first
        and e.organization_id = read_page.organization_id
        and e.created_at >= (select first from bounds) and e.created_at < (select past_last from bounds)
        and (read_page.action is null or e.action = read_page.action)
      order by e.created_at desc, e.id desc
      limit page_limit offset page_offset
    )
  )
  select
    (
      select count(*) from public.audit_entries e
      where e.organization_id = read_page.organization_id
        and e.created_at >= (select first from bounds) and e.created_at < (select past_last from bounds)
        and (read_page.action is null or e.action = read_page.action)
    ),
    (
      select coalesce(json_agg(json_build_object(
        'id', p.id,
        'created_at', to_char(p.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
        'action', p.action,
        'user_email', p.user_email,
        'agent_name', p.agent_name,
        'data', p.data
      )), '[]')
      from page p
    )
$$;
comment on function private.read_page is 'The entries of one organization in a range of UTC days, both inclusive: how many, and one page of them.';
revoke execute on function private.read_page from public, anon, authenticated, service_role;
grant execute on function private.read_page to service_role;

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
  key record;
  request record;
  page json;
begin
  select * into key from private.find_active_key(decode(token_hash, 'hex'));
  if not found then
    return json_build_object('decision', 'unauthorized');
  end if;

  select * into request from private.count_request(key.api_key_id);
  if not request.accepted then
    return json_build_object(
      'decision', 'rate_limited',
      'api_key_id', key.api_key_id,
      'reset', request.reset
    );
  end if;

  -- Without dates the request is counted and nothing is read: the function has found its query
  -- string invalid, and answers 400 to a caller who was let in and 401 or 429 to one who was not.
  if start_date is not null then
    -- The items as text: the function passes them on unread, so a number in data keeps every digit.
    select json_build_object('total', p.total, 'items', p.items::text) into strict page
    from private.read_page(
      key.organization_id, start_date, end_date, public_audit_log.action, page_limit, page_offset, newest_first
    ) p;
  end if;
  return json_build_object(
    'decision', 'accepted',
    'api_key_id', key.api_key_id,
    'organization_id', key.organization_id,
    'remaining', request.remaining,
    'reset', request.reset,
    'page', page
  );
end
$$;
comment on function public.public_audit_log is 'Answers one request of the public audit log: unauthorized, rate_limited, or accepted with a page. token_hash: SHA-256 in hexadecimal. For the Edge Function alone.';
revoke execute on function public.public_audit_log from public, anon, authenticated, service_role;
grant execute on function public.public_audit_log to service_role;
