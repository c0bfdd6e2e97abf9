-- One request to the API is one call of public_audit_log. It finds the organization by the hash of the token.
-- Then answer_request does the rest within that organization: it checks the key, reads the page, counts the
-- request. It returns decisions and never raises them, because a raise would undo the count.

create function audit_log_private.read_actions() returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return (
    select format(E'{"total":%s,"items":\n[%s]\n}', count(*), coalesce(string_agg(
      json_build_object(
        'code', a.code, 'description', a.description, 'required', a.required,
        'deprecated_at', audit_log_private.api_time(a.deprecated_at)
      )::text, E',\n' order by a.position
    ), '')) from audit_log.actions a
  );
end $$;
comment on function audit_log_private.read_actions is 'The catalogue of actions, as the text of a JSON object: {total, items}, each item on a line of its own.';

create function audit_log_private.read_resource(
  organization_id uuid, resource text, query audit_log.page_query,
  out page text, out entries integer, out reads text, out is_caught_up boolean
)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  answer record;
begin
  entries := 0;
  if resource = 'seals' then
    page := audit_log_private.read_seals(organization_id, query);
    return;
  elsif resource = 'actions' then
    page := audit_log_private.read_actions();
    return;
  end if;
  if query.after is null then
    answer := audit_log_private.read_page(organization_id, query);
  else
    answer := audit_log_private.read_feed(organization_id, query);
    is_caught_up := not answer.has_more;
  end if;
  page := answer.page;
  reads := case when page is null then null when query.after is null then 'pages' else 'feed' end;
  entries := answer.entries;
end $$;
comment on function audit_log_private.read_resource is 'Reads a page of entries or seals, or the actions (resource), by its offset or, with after, of the feed. The nulls are those of read_page and read_feed.';

create function audit_log_private.answer_request(
  organization_id uuid, api_key_id uuid, resource text, query audit_log.page_query, client_address inet
) returns text
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  quota constant integer := audit_log_private.quota();
  -- Every query has page_limit. ("query is not null" would be false as soon as one field is null.)
  has_query boolean := query.page_limit is not null;
  shown_id text;
  looks_exhausted boolean;
  read record;
  request record;
  actions json;
  answer text;
begin
  select
    coalesce(o.external_id, o.id::text),
    coalesce(r.accepted_at[cardinality(r.accepted_at) - quota + 1] > clock_timestamp() - interval '60 seconds', false)
  into shown_id, looks_exhausted
  from audit_log_private.api_keys k
  join audit_log_private.rate_limits r on r.organization_id = k.organization_id and r.api_key_id = k.id
  join audit_log.organizations o on o.id = k.organization_id
  where k.organization_id = answer_request.organization_id
    and k.id = answer_request.api_key_id
    and k.revoked_at is null
    and (k.expires_at is null or k.expires_at > clock_timestamp());
  if not found then
    return json_build_object('decision', 'unauthorized');
  end if;

  if query.action is not null then
    perform from audit_log.actions a where a.code = query.action;
    has_query := found;
  end if;
  if query.after is not null then
    -- Makes sure that what a cursor has seen is on disk before its reader gets the cursor: this request's
    -- commit comes later in the WAL, and waits for it.
    perform set_config('synchronous_commit', 'on', true);
  end if;

  -- The page is read before the request is counted, because counting locks the key's row until the end:
  -- requests of one key would wait for each other's pages. A key that looks exhausted reads its page only
  -- after it was counted.
  if has_query and not looks_exhausted then
    read := audit_log_private.read_resource(organization_id, resource, query);
  else
    select null as page, 0 as entries, null as reads, false as is_caught_up into read;
  end if;
  request := audit_log_private.count_request(
    organization_id, api_key_id, read.page is not null or has_query and looks_exhausted, coalesce(read.entries, 0),
    client_address, read.reads, read.is_caught_up
  );
  if request.accepted is null then
    return json_build_object('decision', 'unauthorized');
  elsif not request.accepted then
    return json_build_object(
      'decision', 'rate_limited', 'api_key_id', api_key_id, 'quota', quota, 'remaining', 0, 'reset', request.reset
    );
  end if;
  if has_query and looks_exhausted then
    read := audit_log_private.read_resource(organization_id, resource, query);
    update audit_log_private.rate_limits r
    set invalid_requests = r.invalid_requests + (read.page is null)::integer,
      entries = r.entries + coalesce(read.entries, 0), reads = coalesce(read.reads, r.reads),
      caught_up_at = case when read.is_caught_up then r.last_at else r.caught_up_at end
    where r.organization_id = answer_request.organization_id and r.api_key_id = answer_request.api_key_id;
  end if;
  if not has_query then
    -- Leaves out the action that was asked for, which may have been added after the look-up above.
    select coalesce(json_agg(a.code order by a.position), '[]') into strict actions from audit_log.actions a
    where resource = 'entries' and a.code is distinct from query.action;
  end if;
  answer := json_build_object(
    'decision', case
      when not has_query then 'invalid_query'
      when read.entries is null then 'invalid_cursor'
      when read.page is null then 'too_many'
      else 'accepted'
    end,
    'api_key_id', api_key_id, 'quota', quota, 'remaining', request.remaining, 'reset', request.reset,
    'organization_id', shown_id, 'actions', actions
  );
  return coalesce(left(answer, -1) || ',"page":' || read.page || '}', answer);
end $$;
comment on function audit_log_private.answer_request is 'Answers a request with a key of this organization: see public_audit_log.';

create function audit_log_private.at_home(
  organization_id uuid, task text, resource text default null, query audit_log.page_query default null,
  api_key_id uuid default null, client_address inet default null
) returns text
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  case task
    when 'answer_request' then
      return audit_log_private.answer_request(organization_id, api_key_id, resource, query, client_address);
    when 'read_resource' then
      return (select to_json(r) from audit_log_private.read_resource(organization_id, resource, query) as r);
    when 'retain_and_compact' then
      return audit_log_private.retain_and_compact(organization_id);
    when 'seal_and_compare' then
      return audit_log_private.seal_and_compare(organization_id);
  end case;
end $$;
comment on function audit_log_private.at_home is 'Calls the function that the task names where the organization''s rows are. On one Postgres that is here (docs/scaling.md).';

create function audit_log_private.public_audit_log(
  token_hash text, resource text, query audit_log.page_query, client_address inet
) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  key record;
begin
  select h.organization_id, h.api_key_id into key from audit_log_private.api_key_hashes h
  where h.token_hash = decode(public_audit_log.token_hash, 'hex');
  -- Also called without a key, so that an unknown token takes as long as a revoked or expired one.
  return audit_log_private.at_home(
    key.organization_id, 'answer_request', resource, query, key.api_key_id, client_address
  );
end $$;
comment on function audit_log_private.public_audit_log is 'audit_log.public_audit_log, with its owner''s rights.';

-- The Data API sends a value of this type as it is. On the way, json would be parsed twice.
create domain audit_log."application/vnd.public-audit-log+json" as text;

create function audit_log.public_audit_log(
  token_hash text, resource text, query audit_log.page_query default null, client_address inet default null
) returns audit_log."application/vnd.public-audit-log+json"
-- plpgsql, because it keeps plans between calls.
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  return audit_log_private.public_audit_log(token_hash, resource, query, client_address);
end $$;
comment on function audit_log.public_audit_log is 'Answers one request of the public audit log: the text of {decision, …}. unauthorized: no active key has this token. rate_limited. invalid_query: the query is null, or its action is not in the catalogue; actions has the codes that are. invalid_cursor: its after is not a cursor for this query. too_many: its user_email has more than 1,000,000 entries in these days. accepted: with organization_id and page. All but the first say api_key_id, quota (requests a minute), remaining and reset (seconds). token_hash: SHA-256 in hexadecimal. resource: entries, seals or actions. For the Edge Function only.';
