-- What the rest asks of streams, answered as if there were none. The room of streams, which has a migration of
-- its own, replaces these functions.

create function audit_log_private.delete_streams_of(organization_id uuid) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  return false;
end $$;
comment on function audit_log_private.delete_streams_of is
  'For delete_organization: deletes the streams of an organization. Returns whether there were any.';

create function audit_log_private.stream_owners_without_account() returns table (organization_id uuid, person text)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
end $$;
comment on function audit_log_private.stream_owners_without_account is
  'For follow_deleted_accounts: the owners of streams whose account was deleted.';

create function audit_log_private.mark_streams_of_leaver(
  organization_id uuid, person text, revoke boolean
) returns integer
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  return 0;
end $$;
comment on function audit_log_private.mark_streams_of_leaver is
  'For person_left: marks a person''s streams, or with revoke pauses them. Returns how many.';

create function audit_log_private.troubled_streams() returns json
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return '[]';
end $$;
comment on function audit_log_private.troubled_streams is 'For health(): the streams that need somebody.';

create function audit_log_private.are_streams_down() returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return false;
end $$;
comment on function audit_log_private.are_streams_down is
  'For health(): whether streams fail for a reason of ours.';

create function audit_log_private.stream_lags() returns table (name text, labels jsonb, value double precision)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
end $$;
comment on function audit_log_private.stream_lags is 'For metrics_text(): how far each stream is behind.';
