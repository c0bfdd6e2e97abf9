-- The two schemas, what must exist before them, and which functions run with their owner's rights.
--
-- Nothing outside these two is changed. The Data API serves `audit_log`: the tables that the platform writes, and
-- functions. It never serves `audit_log_private`, which holds everything else. People call functions and have no
-- access to tables (docs/design.md says why). Row level security, on without policies for people, is a second barrier.
--
-- What people call is a function in `audit_log`, made by serve(), which runs with its caller's rights and only calls
-- its namesake in `audit_log_private`: Supabase's linter warns of functions with their owner's rights in a served
-- schema that signed-in people may call (0029). Only what people and service_role call, as SECURITY.md lists it, runs
-- with its owner's rights (security definer); and besides: check_and_count_entries and add_key_actions, because writers
-- have no access to the counts and the catalogue; the triggers that log_table makes; health and metrics_text, for a
-- monitoring system.

do $$
declare
  taken constant regnamespace := coalesce(to_regnamespace('audit_log'), to_regnamespace('audit_log_private'));
begin
  if taken is not null then
    raise exception
      'This database has a schema % already. Nothing was changed. If the audit log is installed here, remove it '
      'first (docs/install.md, "Leave"); if the schema is yours, rename it.', taken using errcode = 'duplicate_schema';
  end if;
  if to_regprocedure('extensions.gen_random_bytes(integer)') is null then
    raise exception
      'The extension pgcrypto is not in the schema extensions. Nothing was changed. Run: create extension pgcrypto '
      'with schema extensions (or alter extension pgcrypto set schema extensions)'
      using errcode = 'undefined_object';
  end if;
end $$;

create schema audit_log;
comment on schema audit_log is 'Public Audit Log. Served by the Data API.';

revoke all on schema audit_log from public, anon, authenticated, service_role;

create schema audit_log_private;
comment on schema audit_log_private is 'Secrets and helpers of Public Audit Log. Never served by the Data API.';

revoke all on schema audit_log_private from public, anon, authenticated, service_role;
