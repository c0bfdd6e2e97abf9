-- Administrators and the platform's server manage keys. A token is only in the answer that creates or rotates its key.
--
-- A token is `pck_`, 32 random base62 characters (190 bits) and their checksum, which token.ts checks.

create function audit_log_private.new_token() returns text
-- One statement without calls of our functions: auto_explain can log their arguments.
language sql volatile set search_path = pg_catalog, pg_temp as $$
  with random as materialized (
    select
      extensions.gen_random_bytes(128) as bytes,
      '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz' as digits
  ),
  body as materialized (
    select 'pck_' || string_agg(substr(digits, byte % 62 + 1, 1), '') as text
    from (
      select digits, get_byte(bytes, n) as byte from random, generate_series(0, 127) as n
      -- 248 = 4 * 62. With larger bytes, the first digits would be more likely.
      where get_byte(bytes, n) < 248
      limit 32
    ) as unbiased
  ),
  checksum as (
    select text, ('x' || left(encode(sha256(convert_to(text, 'UTF8')), 'hex'), 8))::bit(32)::bigint as number from body
  )
  select text || string_agg(
    substr(digits, (number / power(62::numeric, place)::bigint % 62)::int + 1, 1), '' order by place desc
  )
  from checksum, random, generate_series(0, 5) as place
  group by text
$$;
comment on function audit_log_private.new_token is 'A new token, in plain text.';

create function audit_log_private.visible_name(given text, of_what text) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
  spaces constant text := E'[ \\u00a0\\u1680\\u2000-\\u200a\\u202f\\u205f\\u3000]+';
  -- Control characters, line and paragraph separators, and format characters: bidirectional controls, joiners, tags.
  invisible constant text :=
    E'[\\u0001-\\u001f\\u007f-\\u009f\\u2028\\u2029\\u00ad\\u0600-\\u0605\\u061c\\u06dd\\u070f\\u0890\\u0891\\u08e2'
    '\\u180e\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb'
    '\\U000110bd\\U000110cd\\U00013430-\\U0001343f\\U0001bca0-\\U0001bca3\\U0001d173-\\U0001d17a'
    '\\U000e0000-\\U000e007f]';
  name text;
  hidden text;
begin
  -- Checked before the patterns, which become disproportionately slow on long text.
  if char_length(given) <= 1000 then
    name := normalize(btrim(regexp_replace(btrim(given, E' \t\n\r'), spaces, ' ', 'g')), nfc);
    hidden := substring(name from invisible);
  end if;
  if hidden is not null then
    raise exception 'the name of % has a character that cannot be seen, U+%: remove it', of_what,
      upper(regexp_replace(to_hex(ascii(hidden) + x'1000000'::int), '^10*(?=.{4})', ''))
      using errcode = 'invalid_parameter_value';
  end if;
  if name is null or name = '' or char_length(name) > 100 then
    raise exception 'the name of % must have 1 to 100 characters, not only spaces', of_what
      using errcode = 'invalid_parameter_value';
  end if;
  return name;
end $$;
comment on function audit_log_private.visible_name is
  'A name as it is stored. Raises 22023 if it is blank, too long, or has invisible characters.';

create function audit_log_private.insert_api_key(
  organization_id uuid, name text, api_key_id uuid default null, expires_at timestamptz default null
) returns json
language plpgsql volatile set search_path = pg_catalog, pg_temp set timezone = 'UTC' as $$
declare
  token constant text := audit_log_private.new_token();
  -- Computed here, because auto_explain can log the values of an insert.
  hash constant bytea := sha256(convert_to(token, 'UTF8'));
  actor constant record := audit_log_private.acting_person();
  platform_id constant text := (
    select o.platform_id from audit_log.organizations o where o.id = insert_api_key.organization_id
  );
  api_key audit_log_private.api_keys;
begin
  if expires_at <= clock_timestamp()
    or expires_at at time zone 'UTC' > clock_timestamp() at time zone 'UTC' + interval '5 years'
  then
    raise exception 'expires_at must be in the future, at most 5 years ahead, or null for never'
      using errcode = 'invalid_parameter_value';
  end if;
  insert into audit_log_private.api_keys as k (
    organization_id, id, name, hint, created_by, created_by_email, owner_has_account, created_at, expires_at
  )
  values (
    insert_api_key.organization_id, coalesce(insert_api_key.api_key_id, gen_random_uuid()),
    audit_log_private.visible_name(insert_api_key.name, 'an API key'), left(token, 7) || '…' || right(token, 4),
    actor.id, actor.email, audit_log_private.has_account(actor.id), clock_timestamp(), insert_api_key.expires_at
  )
  returning k.* into api_key;
  insert into audit_log_private.api_key_hashes (token_hash, organization_id, api_key_id)
  values (hash, api_key.organization_id, api_key.id);
  insert into audit_log_private.rate_limits (organization_id, api_key_id)
  values (api_key.organization_id, api_key.id);
  -- An expression and not a query, because auto_explain can log the values of a query.
  return json_build_object(
    'id', api_key.id, 'organization_id', platform_id, 'name', api_key.name, 'hint', api_key.hint,
    'created_at', api_key.created_at, 'expires_at', api_key.expires_at, 'token', token
  );
end $$;
comment on function audit_log_private.insert_api_key is 'Creates an API key of the acting person, if there is one.';

create function audit_log_private.check_live_keys(organization_id uuid) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  -- Those who make keys at once take turns, and each counts after those before have committed. Called last, so that
  -- nobody holds the lock while waiting for another.
  perform pg_advisory_xact_lock(hashtextextended('audit_log_private.api_keys ' || organization_id, 0));
  perform from audit_log_private.api_keys k
  where k.organization_id = check_live_keys.organization_id and audit_log_private.is_live(k.revoked_at, k.expires_at)
  having count(*) > 100;
  if found then
    raise exception 'an organization has at most 100 live API keys: revoke one that nobody uses'
      using errcode = 'AL007';
  end if;
end $$;
comment on function audit_log_private.check_live_keys is 'Raises AL007 if an organization has more than 100 live keys.';

create function audit_log_private.log_key_event(organization_id uuid, action text, api_key_id uuid) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  request constant record := audit_log_private.request_context();
begin
  insert into audit_log.audit_entries (organization_id, action, user_email, agent_name, data)
  select
    k.organization_id, log_key_event.action, coalesce(request.email, request.fallback_email), 'API keys',
    jsonb_strip_nulls(jsonb_build_object(
      'api_key_id', k.id, 'name', k.name, 'hint', k.hint, 'successor_id', k.successor_id
    )) || request.data
  from audit_log_private.api_keys k
  join audit_log.organizations o on o.id = k.organization_id and o.logs_key_events
  where k.organization_id = log_key_event.organization_id and k.id = log_key_event.api_key_id;
end $$;
comment on function audit_log_private.log_key_event is 'Logs what somebody did to an API key, with logs_key_events.';

create function audit_log_private.create_api_key(
  organization_id text,
  name text,
  -- To retry safely, send your own: a repeat fails with 23505 instead of creating a second key.
  api_key_id uuid default null,
  -- Text, because the Data API would read a time without a zone in the session's.
  expires_at text default null
) returns json
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  organization constant uuid := audit_log_private.administered_organization(organization_id);
  api_key json;
begin
  api_key := audit_log_private.insert_api_key(organization, name, api_key_id, audit_log_private.utc_time(expires_at));
  -- Not in the statement below: a log of statements would have the token.
  api_key_id := (api_key ->> 'id')::uuid;
  perform audit_log_private.log_key_event(organization, 'api_key_created', api_key_id);
  perform audit_log_private.check_live_keys(organization);
  return api_key;
end $$;
comment on function audit_log_private.create_api_key is
  'Creates an API key. No other answer has its token. For administrators and the secret key.';

create function audit_log_private.rotate_api_key(
  organization_id text, api_key_id uuid, overlap interval default '24 hours', successor_id uuid default null
) returns json
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
  -- Elsewhere, the time between two moments in summer and winter differs by an hour.
  set timezone = 'UTC' as $$
declare
  organization constant uuid := (audit_log_private.allowed_organization(organization_id, for_admins => true)).id;
  -- In seconds, because days and months vary in length.
  overlap_seconds constant numeric := extract(epoch from overlap);
  clock timestamptz;
  api_key audit_log_private.api_keys;
  successor json;
begin
  -- Also where commits do not wait for the disk: after a crash, the key must not work again.
  perform set_config('synchronous_commit', 'on', true);
  if overlap_seconds is null or overlap_seconds not between 0 and 90 * 24 * 60 * 60 then
    raise exception 'overlap must be an interval of 0 to 90 days' using errcode = 'invalid_parameter_value';
  end if;
  -- Locked, so that two rotations at once take turns.
  select k.* into api_key from audit_log_private.api_keys k
  where k.organization_id = organization and k.id = rotate_api_key.api_key_id
  for update;
  clock := clock_timestamp();
  if not found then
    perform audit_log_private.refuse_access();
  elsif api_key.successor_id is not null then
    raise exception 'this API key has a successor: if the token of that one is lost, rotate it with overlap 0'
      using errcode = 'AL001';
  elsif not audit_log_private.is_live(api_key.revoked_at, api_key.expires_at) then
    raise exception 'this API key is revoked or expired: create another' using errcode = 'AL002';
  end if;
  successor := audit_log_private.insert_api_key(
    organization, api_key.name, rotate_api_key.successor_id,
    -- The same lifetime as its predecessor, at most five years: with more leap days, five years can be a day longer.
    case when api_key.expires_at is not null then least(
      clock + (api_key.expires_at - api_key.created_at),
      (clock at time zone 'UTC' + interval '5 years') at time zone 'UTC'
    ) end
  );
  update audit_log_private.api_keys k
  set successor_id = (successor ->> 'id')::uuid,
    expires_at = least(k.expires_at, clock + make_interval(secs => overlap_seconds))
  where k.organization_id = organization and k.id = rotate_api_key.api_key_id;
  perform audit_log_private.log_key_event(organization, 'api_key_rotated', api_key_id);
  perform audit_log_private.check_live_keys(organization);
  return successor;
end $$;
comment on function audit_log_private.rotate_api_key is
  'Creates the successor of an API key, which expires after the overlap. For administrators and the secret key.';

create function audit_log_private.revoke_api_key(organization_id text, api_key_id uuid) returns json
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' as $$
declare
  organization constant record := audit_log_private.allowed_organization(organization_id, for_admins => true);
  actor constant record := audit_log_private.acting_person();
  api_key audit_log_private.api_keys;
begin
  -- As in rotate_api_key.
  perform set_config('synchronous_commit', 'on', true);
  update audit_log_private.api_keys k
  set revoked_at = clock_timestamp(), revoked_by = actor.id, revoked_by_email = actor.email
  where k.organization_id = organization.id and k.id = api_key_id and k.revoked_at is null;
  if found then
    perform audit_log_private.log_key_event(organization.id, 'api_key_revoked', api_key_id);
  end if;
  select k.* into api_key from audit_log_private.api_keys k
  where k.organization_id = organization.id and k.id = api_key_id;
  if not found then
    perform audit_log_private.refuse_access();
  end if;
  return json_build_object(
    'id', api_key.id, 'organization_id', organization.platform_id, 'name', api_key.name, 'hint', api_key.hint,
    'created_at', api_key.created_at, 'revoked_at', api_key.revoked_at, 'revoked_by_email', api_key.revoked_by_email
  );
end $$;
comment on function audit_log_private.revoke_api_key is
  'Revokes an API key: from the commit on, its requests are refused. For administrators and the secret key.';

create function audit_log_private.mark_keys_of_leaver(organization_id uuid, person text, revoke boolean) returns integer
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  clock constant timestamptz := clock_timestamp();
  actor constant record := audit_log_private.acting_person();
  key record;
  keys integer := 0;
begin
  for key in
    update audit_log_private.api_keys k
    set owner_left_at = coalesce(k.owner_left_at, clock),
      revoked_at = case when revoke then clock end,
      revoked_by = case when revoke then actor.id end,
      revoked_by_email = case when revoke then actor.email end
    where k.organization_id = mark_keys_of_leaver.organization_id and k.created_by = person
      and audit_log_private.is_live(k.revoked_at, k.expires_at)
    returning k.id
  loop
    keys := keys + 1;
    if revoke then
      perform audit_log_private.log_key_event(organization_id, 'api_key_revoked', key.id);
    end if;
  end loop;
  return keys;
end $$;
comment on function audit_log_private.mark_keys_of_leaver is 'Marks a person''s live keys, or with revoke ends them.';

create function audit_log_private.list_api_keys(organization_id text) returns json
language plpgsql stable security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' as $$
declare
  organization constant uuid := (audit_log_private.allowed_organization(organization_id, for_admins => true)).id;
  clock constant timestamptz := clock_timestamp();
begin
  return (
    select coalesce(json_agg(l order by l.ended_at desc nulls first, l.created_at desc, l.id), '[]') from (
      select
        k.id, k.name, k.hint, k.created_at, k.created_by_email, k.revoked_at, k.revoked_by_email, k.expires_at,
        k.successor_id, k.owner_left_at,
        least(k.revoked_at, case when k.expires_at <= clock then k.expires_at end) as ended_at,
        case
          when k.revoked_at is not null then 'revoked'
          when k.expires_at <= clock then 'expired'
          when k.expires_at <= clock + interval '14 days' then 'expiring'
          else 'active'
        end as state,
        r.last_at as last_used_at, r.read_mode, r.caught_up_at,
        audit_log_private.quota() as quota,
        (
          select count(*) from unnest(r.counted_at) as t
          -- Later times come from a clock that was wrong.
          where t between clock - interval '60 seconds' and clock + interval '60 seconds'
        ) as requests_last_minute
      from audit_log_private.api_keys k
      cross join lateral (
        select l.counted_at, l.last_at, l.read_mode, l.caught_up_at from audit_log_private.rate_limits l
        where l.organization_id = k.organization_id and l.api_key_id = k.id
        -- A look-up for each key. With outdated statistics, a join compared each key with all of the organization's.
        offset 0
      ) as r
      where k.organization_id = organization
    ) as l
  );
end $$;
comment on function audit_log_private.list_api_keys is
  'All API keys of an organization, live ones first (docs/keys.md). For administrators and the secret key.';

create function audit_log_private.api_key_usage(organization_id uuid, start_date date, end_date date) returns json
language plpgsql stable security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' as $$
declare
  names jsonb;
begin
  perform audit_log_private.require_access(organization_id, for_admins => false);
  perform audit_log_private.check_days(start_date, end_date);
  -- Not joined: with outdated statistics, a join compared each row with all keys of the organization.
  select jsonb_object_agg(k.id, k.name) into names from audit_log_private.api_keys k
  where k.organization_id = api_key_usage.organization_id;
  return (
    select coalesce(json_agg(u order by u.day, u.name, u.user_email, u.user_id, u.api_key_id), '[]')
    from (
      select
        r.day,
        case when not r.is_person then r.reader_id end as api_key_id,
        case when not r.is_person then names ->> r.reader_id::text end as name,
        r.user_id, r.user_email, r.requests, r.invalid_requests, r.entries, r.first_at, r.last_at, r.last_address
      from (
        select l.* from audit_log_private.log_reads l
        where l.organization_id = api_key_usage.organization_id and l.day between start_date and end_date
        union all
        select u.organization_id, false, u.api_key_id, u.day, null, null, u.requests, u.invalid_requests, u.entries,
          u.first_at, u.last_at, u.last_address
        from audit_log_private.rate_limits u
        where u.organization_id = api_key_usage.organization_id and u.day between start_date and end_date
      ) as r
    ) as u
  );
end $$;
comment on function audit_log_private.api_key_usage is
  'Who read the log, by UTC day, within the last 400 days (docs/keys.md). For administrators and auditors.';

select audit_log_private.serve(name)
from unnest('{create_api_key,rotate_api_key,revoke_api_key,list_api_keys,api_key_usage}'::text[]) as name;
