-- That there is no room that may be left out. Such a room has a migration of its own, which replaces these functions.

create function audit_log_private.delete_more_of(organization_id uuid) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
end $$;
comment on function audit_log_private.delete_more_of is 'For close_organization: deletes what else sends entries.';

create function audit_log_private.mark_more_without_account() returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
end $$;
comment on function audit_log_private.mark_more_without_account is 'For follow_deleted_accounts: what else they own.';

create function audit_log_private.mark_more_of_leaver(organization_id uuid, person text, revoke boolean) returns jsonb
language sql volatile set search_path = pg_catalog, pg_temp
return jsonb '{}';
comment on function audit_log_private.mark_more_of_leaver is 'For person_left: marks or ends what else somebody owns.';

create function audit_log_private.has_more_readers(organization_id uuid) returns boolean
language sql stable set search_path = pg_catalog, pg_temp
return false;
comment on function audit_log_private.has_more_readers is 'For health(): whether something else reads a log.';

create function audit_log_private.more_findings() returns jsonb
language sql stable set search_path = pg_catalog, pg_temp
return jsonb '{}';
comment on function audit_log_private.more_findings is 'For health(): its fields, by name.';

create function audit_log_private.more_alerts() returns table (severity text, field text)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
end $$;
comment on function audit_log_private.more_alerts is 'For health(): the alerts among more_findings.';

create function audit_log_private.more_metrics()
returns table (name text, help text, labels jsonb, value double precision)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
end $$;
comment on function audit_log_private.more_metrics is 'For metrics_text().';
