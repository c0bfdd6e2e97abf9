-- Whether a JWT still counts. It is asked of Supabase Auth itself, whoever `people` says is calling.

create function audit_log_private.is_valid_session() returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  form constant text := '^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$';
  -- Null for people of other identity providers, whose ids are no UUIDs.
  account constant uuid := substring(auth.jwt() ->> 'sub' from form)::uuid;
  -- Null for tokens that belong to no session.
  session constant uuid := substring(auth.jwt() ->> 'session_id' from form)::uuid;
begin
  -- A JWT stays valid after its account is deleted or banned, and after its session is ended (sign out everywhere). If
  -- the account has a second factor, the session must have used it. (to_jsonb, because not every Auth has these
  -- columns.)
  return account is null
    or exists (
      select from auth.users u cross join to_jsonb(u) as j (facts)
      where u.id = account and facts ->> 'deleted_at' is null
        and ((facts ->> 'banned_until')::timestamptz > clock_timestamp()) is not true
    ) and (
      auth.jwt() ->> 'aal' = 'aal2'
      or not exists (select from auth.mfa_factors f where f.user_id = account and f.status = 'verified')
    ) and (
      session is null
      or exists (
        select from auth.sessions s cross join to_jsonb(s) as j (facts)
        where s.id = session and ((facts ->> 'not_after')::timestamptz <= clock_timestamp()) is not true
      )
    );
end $$;
comment on function audit_log_private.is_valid_session is
  'Whether the signed-in person''s account is neither deleted nor banned, the session is not ended, and it has used '
  'the second factor, if there is one. True for people of other identity providers.';
