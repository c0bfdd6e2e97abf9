-- What happens to the API keys of a person who leaves an organization.

create function audit_log.person_left(organization_id text, person text, revoke boolean default false) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  organization constant uuid := audit_log_private.organization_named(organization_id);
begin
  -- As in rotate_api_key.
  perform set_config('synchronous_commit', 'on', true);
  return jsonb_build_object('keys', audit_log_private.mark_keys_of_leaver(organization, person, revoke))
    || audit_log_private.mark_more_of_leaver(organization, person, revoke);
end $$;
comment on function audit_log.person_left is
  'Says that a person, an id as caller() gives it, has left an organization: marks what the person owns, or with '
  'revoke ends it. Returns how much. For service_role, and triggers of the database''s owner.';

create function audit_log_private.follow_deleted_accounts() returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  perform audit_log_private.mark_keys_of_leaver(k.organization_id, k.created_by, revoke => false)
  from audit_log_private.api_keys k
  where k.owner_has_account and k.owner_left_at is null and audit_log_private.is_live(k.revoked_at, k.expires_at)
    and not audit_log_private.has_account(k.created_by)
  group by k.organization_id, k.created_by;
  perform audit_log_private.mark_more_without_account();
end $$;
comment on function audit_log_private.follow_deleted_accounts is 'Does what person_left does for deleted accounts.';

create function audit_log_private.call_person_left() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if (new.organization_id, new.user_id, new.role) is distinct from (old.organization_id, old.user_id, old.role) then
    perform audit_log.person_left(old.organization_id, old.user_id);
  end if;
  return null;
end $$;
comment on function audit_log_private.call_person_left is 'Calls person_left for an administrator who is none now.';

create trigger call_person_left
  after update or delete on audit_log.organization_members
  for each row when (old.role = 'admin')
  execute function audit_log_private.call_person_left();
