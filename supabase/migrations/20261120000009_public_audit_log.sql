-- One request to the API is one call of public_audit_log. It finds the organization by the hash of the token.
-- Then answer_request does the rest within that organization: it checks the key, reads the page, counts the
-- request. It returns decisions and never raises them, because a raise would undo the count.
-- No caller can name an organization: it always follows from the hash of the token.

create function private.find_api_key(token_hash bytea, out organization_id uuid, out api_key_id uuid)
-- plpgsql, because it keeps plans between calls.
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
begin
  select h.organization_id, h.api_key_id into organization_id, api_key_id
  from private.api_key_hashes h
  where h.token_hash = find_api_key.token_hash;
end
$$;
comment on function private.find_api_key is 'The key with this token hash, active or not; nulls when there is none.';
revoke execute on function private.find_api_key from public, anon, authenticated, service_role;
grant execute on function private.find_api_key to service_role;

create function private.read_entries(
  organization_id uuid,
  start_date date,
  end_date date,
  action public.audit_action,
  page_limit integer,
  page_offset bigint,
  newest_first boolean,
  after text,
  of_seals boolean default false,
  out page json,
  out entries integer
)
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
declare
  answer record;
begin
  if of_seals then
    page := private.read_seals(organization_id, start_date, end_date, page_limit, page_offset);
    entries := 0;
    return;
  end if;
  if after is null then
    answer := private.read_page(organization_id, start_date, end_date, action, page_limit, page_offset, newest_first);
  else
    answer := private.read_feed(organization_id, start_date, end_date, action, page_limit, after);
  end if;
  page := answer.page;
  entries := answer.entries;
end
$$;
comment on function private.read_entries is 'Reads a page by its offset, with after a page of the feed, or a page of seals: read_page, read_feed, read_seals.';
revoke execute on function private.read_entries from public, anon, authenticated, service_role;

create function private.answer_request(
  organization_id uuid,
  api_key_id uuid,
  start_date date,
  end_date date,
  action public.audit_action,
  page_limit integer,
  page_offset bigint,
  newest_first boolean,
  after text,
  of_seals boolean,
  client_address inet
) returns json
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
  looks_exhausted boolean;
  request record;
  read record;
begin
  select null::json as page, 0 as entries into read;
  select coalesce(
    r.accepted_at[cardinality(r.accepted_at) - 59] > clock_timestamp() - interval '60 seconds', false
  )
  into looks_exhausted
  from private.api_keys k
  join private.rate_limits r on r.organization_id = k.organization_id and r.api_key_id = k.id
  where k.organization_id = answer_request.organization_id
    and k.id = answer_request.api_key_id
    and k.revoked_at is null
    and (k.expires_at is null or k.expires_at > clock_timestamp());
  if not found then
    return json_build_object('decision', 'unauthorized');
  end if;

  if after is not null then
    -- Makes sure that what a cursor has seen is on disk before its reader gets the cursor: this request's
    -- commit comes later in the WAL, and waits for it.
    perform set_config('synchronous_commit', 'on', true);
  end if;

  -- The page is read before the request is counted, because counting locks the key's row until the end:
  -- requests of one key would wait for each other's pages. A key that looks exhausted reads its page only
  -- after it was counted. Without dates there is no page: the query string was invalid, and the function
  -- answers 400 to a caller who is let in.
  if start_date is not null and not looks_exhausted then
    read := private.read_entries(
      organization_id, start_date, end_date, action, page_limit, page_offset, newest_first, after, of_seals
    );
  end if;
  request := private.count_request(
    organization_id, api_key_id,
    read.page is not null or start_date is not null and looks_exhausted, coalesce(read.entries, 0), client_address
  );
  if request.accepted is null then
    return json_build_object('decision', 'unauthorized');
  end if;
  if not request.accepted then
    return json_build_object('decision', 'rate_limited', 'api_key_id', api_key_id, 'reset', request.reset);
  end if;
  if start_date is not null and looks_exhausted then
    read := private.read_entries(
      organization_id, start_date, end_date, action, page_limit, page_offset, newest_first, after, of_seals
    );
    update private.rate_limits r
    set invalid_requests = r.invalid_requests + (read.page is null)::integer,
      entries = r.entries + coalesce(read.entries, 0)
    where r.organization_id = answer_request.organization_id and r.api_key_id = answer_request.api_key_id;
  end if;
  return json_build_object(
    'decision', 'accepted',
    'api_key_id', api_key_id,
    'organization_id', organization_id,
    'remaining', request.remaining,
    'reset', request.reset,
    'page', read.page
  );
end
$$;
comment on function private.answer_request is 'Answers a request with a key of this organization: see public_audit_log.';
revoke execute on function private.answer_request from public, anon, authenticated, service_role;
grant execute on function private.answer_request to service_role;

create function public.public_audit_log(
  token_hash text,
  start_date date default null,
  end_date date default null,
  action public.audit_action default null,
  page_limit integer default 100,
  page_offset bigint default 0,
  newest_first boolean default false,
  after text default null,
  of_seals boolean default false,
  client_address inet default null
) returns json
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
  key constant record := private.find_api_key(decode(token_hash, 'hex'));
begin
  -- Also called without a key, so that an unknown token takes as long as a revoked or expired one.
  return private.answer_request(
    key.organization_id, key.api_key_id, start_date, end_date, action, page_limit, page_offset, newest_first, after,
    of_seals, client_address
  );
end
$$;
comment on function public.public_audit_log is 'Answers one request of the public audit log: unauthorized, rate_limited, or accepted with a page. The page is null when no dates were given, or after is no cursor for this query. of_seals: a page of seals instead of entries; action, newest_first and after are ignored. token_hash: SHA-256 in hexadecimal. For the Edge Function only.';
revoke execute on function public.public_audit_log from public, anon, authenticated, service_role;
grant execute on function public.public_audit_log to service_role;
