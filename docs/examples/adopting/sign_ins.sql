-- Logs sign-ins and changes of accounts of Supabase Auth, in each organization that my_organizations() gives for the
-- person. Push it after the recipes for your people and organizations. There is nothing to change in it.
--
-- Nothing here can stop a sign-in or a deletion: whatever fails is counted (health(), logging_failures), and no lock is
-- waited for longer than half a second. The triggers name no column of Auth's, so that Auth can change its tables.

insert into audit_log.actions (code, description)
values
  ('signed_in', 'A person signed in'),
  ('signed_out', 'A session of a person ended: they signed out, or Supabase Auth ended it'),
  ('sign_in_failed', 'Somebody gave a wrong password or a wrong code for this person'),
  ('second_factor_added', 'A second factor was added to the account of this person'),
  ('second_factor_removed', 'A second factor was removed from the account of this person'),
  ('passkey_added', 'A passkey was added to the account of this person'),
  ('passkey_removed', 'A passkey was removed from the account of this person'),
  ('identity_added', 'An identity of a provider was linked to the account of this person'),
  ('identity_removed', 'An identity of a provider is no longer linked to the account of this person'),
  ('email_changed', 'The address of this person was changed'),
  ('password_changed', 'The password of this person was changed'),
  ('account_deleted', 'The account of this person was deleted')
on conflict do nothing;

create or replace function audit_log_private.custom_write_sign_in(user_id uuid, action text, data jsonb) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp set lock_timeout = '500ms' as $$
declare
  claims constant text := current_setting('request.jwt.claims', true);
  email text;
  organization text;
begin
  select u.email into email from auth.users u where u.id = user_id;
  -- The account is being deleted, and its sessions and factors with it.
  if not found then
    return;
  end if;
  -- For my_organizations(), which asks who is signed in. An error undoes it.
  perform set_config('request.jwt.claims', jsonb_build_object('sub', user_id)::text, true);
  for organization in
    select distinct m.id from audit_log_private.my_organizations() m
    where not exists (
      select from audit_log.organizations o where o.id = audit_log.organization_uuid(m.id) and o.closed_at is not null
    )
  loop
    begin
      insert into audit_log.audit_entries (organization_id, action, user_email, agent_name, data)
      values (
        audit_log_private.ensure_organization(organization), action,
        coalesce(audit_log_private.valid_email(email), 'unknown@invalid'), 'Supabase Auth',
        data || jsonb_build_object('user_id', user_id)
      );
    exception when others then
      perform audit_log_private.note_failure('auth: ' || action, sqlstate || ': ' || sqlerrm);
      -- The others would have to wait, too.
      exit when sqlstate = '55P03';
    end;
  end loop;
  perform set_config('request.jwt.claims', coalesce(claims, ''), true);
-- Also when the hook has no more time.
exception when others or query_canceled then
  begin
    perform audit_log_private.note_failure('auth: ' || action, sqlstate || ': ' || sqlerrm);
  exception when others or query_canceled then null;
  end;
end $$;
comment on function audit_log_private.custom_write_sign_in is 'Writes into the logs of a person. Never fails.';

create or replace function audit_log_private.custom_sign_in() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  account jsonb;
  former jsonb;
  is_kept boolean;
  was_factor boolean;
  is_factor boolean;
  added_or_removed text;
begin
  -- As JSON: a column that Auth has renamed is null, and no error.
  account := to_jsonb(coalesce(new, old));
  former := to_jsonb(old);
  -- A soft deletion blanks the address and the password.
  is_kept := tg_op = 'UPDATE' and account ->> 'deleted_at' is null;
  -- A factor counts once its first code was right.
  was_factor := coalesce(former ->> 'status' = 'verified', false);
  is_factor := tg_op <> 'DELETE' and coalesce(account ->> 'status' = 'verified', false);
  added_or_removed := case when tg_op = 'INSERT' or is_factor then '_added' else '_removed' end;
  perform audit_log_private.custom_write_sign_in(
    (account ->> case tg_table_name when 'users' then 'id' else 'user_id' end)::uuid, e.action, e.data
  )
  from (
    values
      ('users', tg_op = 'DELETE', 'account_deleted', '{}'::jsonb),
      ('users', is_kept and former -> 'email' is distinct from account -> 'email', 'email_changed',
        jsonb_build_object('former_email', audit_log_private.cut(former ->> 'email', 320))),
      ('users', is_kept and former -> 'encrypted_password' is distinct from account -> 'encrypted_password',
        'password_changed', '{}'),
      ('sessions', tg_op = 'INSERT', 'signed_in',
        jsonb_build_object('session_id', account -> 'id', 'caller', jsonb_strip_nulls(jsonb_build_object(
          'id', account -> 'user_id', 'kind', 'person', 'address', account -> 'ip',
          'user_agent', audit_log_private.cut(account ->> 'user_agent', 200), 'client_id', account -> 'oauth_client_id'
        )))),
      ('sessions', tg_op = 'DELETE', 'signed_out', jsonb_build_object('session_id', account -> 'id')),
      ('mfa_factors', was_factor <> is_factor, 'second_factor' || added_or_removed,
        jsonb_build_object('factor_id', account -> 'id', 'factor_type', account -> 'factor_type')),
      ('identities', true, 'identity' || added_or_removed,
        jsonb_build_object('identity_id', account -> 'id', 'provider', account -> 'provider')),
      ('webauthn_credentials', true, 'passkey' || added_or_removed, jsonb_build_object('passkey_id', account -> 'id'))
  ) as e (changed, happened, action, data)
  where e.changed = tg_table_name and e.happened;
  -- A trigger before a deletion stops it by returning null.
  return coalesce(new, old);
exception when others then
  return coalesce(new, old);
end $$;
comment on function audit_log_private.custom_sign_in is 'Logs a change of a table of Auth. Never fails.';

create or replace trigger audit_log_sign_in after insert or delete on auth.sessions
  for each row execute function audit_log_private.custom_sign_in();
create or replace trigger audit_log_second_factor after insert or update or delete on auth.mfa_factors
  for each row execute function audit_log_private.custom_sign_in();
-- Before: then the account still has its address and its organizations.
create or replace trigger audit_log_account before delete on auth.users
  for each row execute function audit_log_private.custom_sign_in();
create or replace trigger audit_log_account_changed after update on auth.users
  for each row execute function audit_log_private.custom_sign_in();
create or replace trigger audit_log_identity after insert or delete on auth.identities
  for each row execute function audit_log_private.custom_sign_in();
do $$ begin
  create or replace trigger audit_log_passkey after insert or delete on auth.webauthn_credentials
    for each row execute function audit_log_private.custom_sign_in();
-- Older versions of Auth have no passkeys.
exception when undefined_table then null;
end $$;

-- For the Auth hooks "Password verification attempt" and "MFA verification attempt". Switch them off before you drop
-- this function: a hook whose function is missing lets nobody in.
create or replace function audit_log_private.custom_sign_in_attempt(event jsonb) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  if event ->> 'valid' = 'false' then
    perform audit_log_private.custom_write_sign_in(
      (event ->> 'user_id')::uuid, 'sign_in_failed',
      jsonb_build_object('factor', coalesce(event ->> 'factor_type', 'password'))
    );
  end if;
  return jsonb_build_object('decision', 'continue');
exception when others or query_canceled then
  return jsonb_build_object('decision', 'continue');
end $$;
comment on function audit_log_private.custom_sign_in_attempt is 'Logs failed attempts to sign in. Auth decides.';

revoke all on function audit_log_private.custom_write_sign_in, audit_log_private.custom_sign_in,
  audit_log_private.custom_sign_in_attempt
from public, anon, authenticated, service_role;
grant usage on schema audit_log_private to supabase_auth_admin;
grant execute on function audit_log_private.custom_sign_in_attempt to supabase_auth_admin;
