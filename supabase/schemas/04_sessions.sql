-- Whether a JWT still counts. It is asked of Supabase Auth itself, whoever `people` says is calling.

create function audit_log_private.is_valid_session() returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  -- Null for people of other identity providers, whose ids are no UUIDs.
  account constant uuid := substring(auth.jwt() ->> 'sub' from '^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$')::uuid;
begin
  -- A JWT stays valid after its account is deleted or banned. If the account has a second factor, the session must
  -- have used it. (to_jsonb, because not every Auth has these columns.)
  return account is null
    or exists (
      select from auth.users u cross join to_jsonb(u) as j (facts)
      where u.id = account and facts ->> 'deleted_at' is null
        and ((facts ->> 'banned_until')::timestamptz > clock_timestamp()) is not true
    ) and (
      auth.jwt() ->> 'aal' = 'aal2'
      or not exists (select from auth.mfa_factors f where f.user_id = account and f.status = 'verified')
    );
end $$;
comment on function audit_log_private.is_valid_session is
  'Whether the signed-in person''s account is neither deleted nor banned, and the session has used its second '
  'factor, if there is one. True for people of other identity providers.';
