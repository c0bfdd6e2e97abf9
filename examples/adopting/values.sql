-- Makes values of yours acceptable to the audit log. The other files use these functions, so that no name or address can
-- make your insert fail. Nothing here is yours to change.
--
-- The functions that begin with custom_ are in audit_log_private, because the Data API does not serve this schema,
-- and because they go with it when you leave. No migration of the audit log uses such a name.

-- Without settings and as expressions, so that Postgres inlines them: they are called for each row.
create function audit_log_private.custom_text(value text, otherwise text) returns text language sql immutable
return case when pg_catalog."left"(value, 200) ~ '\S' then pg_catalog."left"(value, 200) else otherwise end;
comment on function audit_log_private.custom_text is 'A name as the audit log takes it: at most 200 characters, and never blank.';

create function audit_log_private.custom_email(value text) returns text language sql immutable
return case when value like '%_@_%' and pg_catalog.char_length(value) <= 320 then value else 'unknown@invalid' end;
comment on function audit_log_private.custom_email is 'An address as the audit log takes it, or one that says that there is none.';

create function audit_log_private.custom_value(value text) returns text language sql immutable
return coalesce(pg_catalog."left"(value, 100), '');
comment on function audit_log_private.custom_value is 'A value for data: a string of at most 100 characters, empty if there is none.';

revoke all on function audit_log_private.custom_text, audit_log_private.custom_email, audit_log_private.custom_value
from public, anon, authenticated, service_role;
