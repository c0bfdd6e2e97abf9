-- An organization's administrators make and revoke its keys. The token is in the answer of
-- create_api_key and nowhere else, ever.
--
-- A token is `pck_`, 32 random base62 characters (190 bits) and 6 base62 characters of checksum: the
-- first 32 bits of SHA-256 over the 36 characters before them. The checksum refuses typing errors
-- without asking the database, and lets secret scanners tell a key from a word. It proves nothing.
-- supabase/functions/public-audit-log/token.ts checks the same shape.

create extension if not exists pgcrypto with schema extensions;

create function private.base62(value bigint) returns text
language sql immutable strict set search_path = ''
as $$
  select string_agg(
    substr('0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz', (value / power(62::numeric, place)::bigint % 62)::int + 1, 1),
    '' order by place desc
  )
  from generate_series(0, 5) as place
$$;
comment on function private.base62 is 'A number below 62^6 as six base62 digits (0-9, A-Z, a-z).';
revoke execute on function private.base62 from public, anon, authenticated, service_role;
grant execute on function private.base62 to authenticated;

create function private.new_token() returns text
language sql volatile set search_path = ''
as $$
  with random as materialized (
    select extensions.gen_random_bytes(128) as bytes
  ),
  -- Bytes of 248 and more are passed over (248 = 4 * 62), or the first digits would be likelier.
  body as materialized (
    -- Not by a function of ours: auto_explain can log what such a one is given.
    select 'pck_' || string_agg(
      substr('0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz', byte % 62 + 1, 1), ''
    ) as text
    from (
      select get_byte(bytes, n) as byte
      from random, generate_series(0, 127) as n
      where get_byte(bytes, n) < 248
      limit 32
    ) as accepted
  )
  select text || private.base62(('x' || left(encode(sha256(convert_to(text, 'UTF8')), 'hex'), 8))::bit(32)::bigint)
  from body
$$;
comment on function private.new_token is 'A new API key token, in clear.';
revoke execute on function private.new_token from public, anon, authenticated, service_role;
grant execute on function private.new_token to authenticated;

create function public.create_api_key(
  organization_id uuid,
  name text,
  -- Chosen by a caller who may have to ask again, not knowing whether the first time succeeded: the
  -- second time then fails instead of making another key.
  api_key_id uuid default null
) returns json
language plpgsql volatile set search_path = ''
as $$
declare
  token constant text := private.new_token();
  -- Here and not in the insert: auto_explain can log the values of a statement.
  hash constant bytea := sha256(convert_to(token, 'UTF8'));
  api_key public.api_keys;
begin
  insert into public.api_keys as k (id, organization_id, name, hint)
  values (
    coalesce(create_api_key.api_key_id, gen_random_uuid()),
    create_api_key.organization_id,
    btrim(create_api_key.name),
    left(token, 7) || '…' || right(token, 4)
  )
  returning k.* into api_key;
  insert into private.api_key_hashes (token_hash, api_key_id)
  values (hash, api_key.id);
  insert into private.rate_limits (api_key_id) values (api_key.id);
  return json_build_object(
    'id', api_key.id,
    'organization_id', api_key.organization_id,
    'name', api_key.name,
    'hint', api_key.hint,
    'created_at', api_key.created_at,
    'token', token
  );
exception
  when insufficient_privilege then
    raise exception 'only an administrator of the organization may create its API keys'
      using errcode = 'insufficient_privilege';
  when unique_violation then
    raise exception 'an API key with this id has been created before: its token cannot be shown again'
      using errcode = 'unique_violation';
  when check_violation or not_null_violation then
    raise exception 'the name of an API key has 1 to 100 characters, not only spaces'
      using errcode = 'invalid_parameter_value';
end
$$;
comment on function public.create_api_key is 'Makes an API key and answers with its token, for the only time. For an administrator of the organization; others get 42501. A blank or overlong name is 22023, an id that has been used before 23505.';
revoke execute on function public.create_api_key from public, anon, authenticated, service_role;
grant execute on function public.create_api_key to authenticated;

create function public.revoke_api_key(api_key_id uuid) returns json
language plpgsql volatile set search_path = ''
as $$
declare
  api_key public.api_keys;
begin
  update public.api_keys k
  set revoked_at = now(), revoked_by = auth.uid()
  where k.id = api_key_id and k.revoked_at is null;
  select k.* into api_key from public.api_keys k where k.id = api_key_id;
  -- A key that does not exist and a key of somebody else's are the same answer.
  if not found then
    raise exception 'only an administrator of the organization may revoke its API keys'
      using errcode = 'insufficient_privilege';
  end if;
  return json_build_object(
    'id', api_key.id,
    'organization_id', api_key.organization_id,
    'name', api_key.name,
    'hint', api_key.hint,
    'created_at', api_key.created_at,
    'revoked_at', api_key.revoked_at
  );
end
$$;
comment on function public.revoke_api_key is 'Revokes an API key: from the commit on every request with it is 401. Revoking again changes nothing. For an administrator of the organization; others get 42501.';
revoke execute on function public.revoke_api_key from public, anon, authenticated, service_role;
grant execute on function public.revoke_api_key to authenticated;
