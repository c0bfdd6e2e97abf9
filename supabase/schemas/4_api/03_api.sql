-- One request to the API is one call of public_audit_log, which finds the key by the hash of the token. Then
-- answer_request does the rest. It returns decisions and never raises them, because a raise would undo the count.

-- The Data API sends a value of this type as it is. On the way, json would be parsed twice.
create domain audit_log."application/vnd.public-audit-log+json" as text;

create function audit_log.public_audit_log(
  token_hash text, resource text, query audit_log.page_query default null, client_address inet default null
) returns audit_log."application/vnd.public-audit-log+json"
-- plpgsql, because it keeps plans between calls.
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  key record;
begin
  select h.organization_id, h.api_key_id into key from audit_log_private.api_key_hashes h
  where h.token_hash = decode(public_audit_log.token_hash, 'hex');
  -- Also called without a key, so that an unknown token takes as long as a revoked or expired one.
  return audit_log_private.answer_request(key.organization_id, key.api_key_id, resource, query, client_address);
end $$;
comment on function audit_log.public_audit_log is
  'Answers one request of the public audit log: the text of {decision, …}, see ask_database.ts. token_hash: SHA-256 '
  'in hexadecimal. resource: entries, entry, seals or actions. For the Edge Function only.';

create function audit_log_private.answer_request(
  organization_id uuid, api_key_id uuid, resource text, query audit_log.page_query, client_address inet
) returns text
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  quota constant integer := audit_log_private.quota();
  state record;
  is_let_through boolean := true;
  read audit_log_private.reading;
  mode text;
  request record;
  catalogue json;
  answer text;
begin
  select
    -- What answers call organization_id.
    o.platform_id,
    coalesce(
      r.counted_at[cardinality(r.counted_at) - quota + 1] > clock_timestamp() - interval '60 seconds', false
    ) as looks_exhausted
  into state
  from audit_log_private.api_keys k
  join audit_log_private.rate_limits r on r.organization_id = k.organization_id and r.api_key_id = k.id
  join audit_log.organizations o on o.id = k.organization_id and o.closed_at is null
  where k.organization_id = answer_request.organization_id and k.id = answer_request.api_key_id
    and audit_log_private.is_live(k.revoked_at, k.expires_at);
  if not found then
    return json_build_object('decision', 'unauthorized');
  end if;

  -- The page is read before the request is counted, because counting locks the key's row until the end: requests of one
  -- key would wait for each other's pages. A key that looks exhausted reads its page only after it was counted.
  if state.looks_exhausted then
    request := audit_log_private.count_request(organization_id, api_key_id, client_address);
    is_let_through := request.outcome = 'counted';
  end if;
  if is_let_through then
    read := audit_log_private.read_resource(organization_id, resource, query);
    if resource = 'entries' and read.decision = 'accepted' then
      mode := case when query.after is null then 'pages' else 'feed' end;
    end if;
  end if;
  if not state.looks_exhausted then
    request := audit_log_private.count_request(
      organization_id, api_key_id, client_address, read.decision, coalesce(read.entries, 0), mode, read.has_more
    );
  elsif is_let_through then
    -- What count_request notes of a reading.
    update audit_log_private.rate_limits r
    set invalid_requests = r.invalid_requests + (read.decision <> 'accepted')::integer,
      entries = r.entries + coalesce(read.entries, 0),
      read_mode = coalesce(mode, r.read_mode),
      caught_up_at = case when not read.has_more then r.last_at else r.caught_up_at end
    where r.organization_id = answer_request.organization_id and r.api_key_id = answer_request.api_key_id;
  end if;

  if request.outcome = 'unauthorized' then
    return json_build_object('decision', 'unauthorized');
  elsif request.outcome = 'rate_limited' then
    return json_build_object(
      'decision', 'rate_limited', 'api_key_id', api_key_id, 'quota', quota,
      'remaining', request.remaining, 'reset', request.reset
    );
  end if;
  if read.decision = 'invalid_query' and resource = 'entries' then
    -- If every action asked for exists by now, one was added after the check. Then the list leaves these out, so that
    -- the Edge Function still finds the error.
    select json_agg(a.code order by a.position) into strict catalogue from audit_log.actions a
    where (a.code = any (query.actions) and query.actions <@ array(select b.code from audit_log.actions b)) is not true;
  end if;
  answer := json_build_object(
    'decision', read.decision, 'api_key_id', api_key_id, 'quota', quota,
    'remaining', request.remaining, 'reset', request.reset, 'organization_id', state.platform_id,
    'actions', coalesce(catalogue, '[]'), 'total', read.total, 'cursor', read.cursor, 'has_more', read.has_more,
    'altered', read.altered
  );
  return coalesce(left(answer, -1) || E',"items":\n' || read.items || E'\n}', answer);
end $$;
comment on function audit_log_private.answer_request is 'Answers a request with a key of this organization.';

create function audit_log_private.read_resource(organization_id uuid, resource text, query audit_log.page_query)
returns audit_log_private.reading
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  line text;
  read audit_log_private.reading;
begin
  -- Not "is not null", which would ask for every field.
  if not query is null then
    query := audit_log_private.with_defaults(query);
    if resource = 'seals' then
      return audit_log_private.read_seals(organization_id, query);
    elsif resource = 'actions' then
      return audit_log_private.read_actions();
    elsif resource = 'entry' then
      line := audit_log_private.line_of(organization_id, query.created_at, query.id);
      read.decision := 'accepted';
      read.entries := (line is not null)::integer;
      read.total := read.entries;
      read.items := '[' || coalesce(line, '') || ']';
      return read;
    elsif resource = 'entries' and query.after is null then
      return audit_log_private.read_page(organization_id, query);
    elsif resource = 'entries' then
      -- What a cursor has seen is on disk before its reader gets it: this request's commit comes later in the WAL.
      perform set_config('synchronous_commit', 'on', true);
      return audit_log_private.read_feed(organization_id, query);
    end if;
  end if;
  read.decision := 'invalid_query';
  return read;
end $$;
comment on function audit_log_private.read_resource is
  'Reads what a request asks for. invalid_query if the query is null, there is no such resource, or as readers decide.';
