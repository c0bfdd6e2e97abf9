-- Makes an empty Postgres look like a new hosted Supabase project before any migration. stack.ts runs it once, as
-- supabase_admin, after Auth has created its schema. postgresql.conf beside it has the settings of the server.
--
-- The source is github.com/supabase/postgres, migrations/db, as it was in November 2026: the name after a statement is
-- that of a file there. docs/platform.md says what is missing.

create role anon nologin inherit; -- 20230529180330_alter_api_roles_for_inherit
create role authenticated nologin inherit; -- the same
create role service_role nologin inherit bypassrls; -- the same
create role authenticator login noinherit; -- 00000000000000-initial-schema; dev/local/stack.ts sets its password
create role dashboard_user nologin createdb createrole replication; -- 00000000000003-post-setup
create role supabase_auth_admin login noinherit; -- 20260821154147_revoke_createrole_from_auth_admin
grant anon, authenticated, service_role to authenticator; -- 00000000000000-initial-schema

-- PostgREST applies the settings of the caller's role to each request, but none that only a superuser may set.
alter role anon set statement_timeout = '3s'; -- 00000000000000-initial-schema
alter role authenticated set statement_timeout = '8s'; -- the same
alter role authenticator set statement_timeout = '8s'; -- 20221028101028_set_authenticator_timeout
alter role authenticator set lock_timeout = '8s'; -- 20231130133139_set_lock_timeout_to_authenticator_role
alter role supabase_auth_admin set search_path = auth; -- 00000000000001-auth-schema
alter role supabase_auth_admin set idle_in_transaction_session_timeout = '60s'; -- 20220322085208_gotrue-session-limit
-- With the backslash, which hides the schema of the role's own name.
alter role postgres set search_path = "\$user", public, extensions; -- 00000000000003-post-setup
alter role supabase_admin set search_path = "$user", public, auth, extensions; -- the same

-- Refuses an UPDATE or DELETE without WHERE in the Data API's sessions, within functions, too. Few Postgres have it:
-- then only tests/running/platform_test.ts looks for such statements.
do $$ begin
  load 'safeupdate';
  alter role authenticator set session_preload_libraries = 'safeupdate'; -- 20260413000000_fix-authenticator-…
  alter role postgres set session_preload_libraries = 'safeupdate'; -- 20261010094800_postgres-role-safeupdate
  alter role postgres set safeupdate.enabled = off; -- the same
exception when undefined_file then null; end $$;

-- Owns everything that the migrations create; dev/local/stack.ts has created it. It is no superuser, so that what works
-- here also works there. From Postgres 16 on, who creates roles needs the option to pass a role on.
grant anon, authenticated, service_role to postgres with admin option; -- 20250605172253_grant_with_admin_to…
grant authenticator to postgres with admin option; -- nix/tests/expected/z_17_roles.out
grant pg_monitor to postgres; -- 20230306081037_grant_pg_monitor_to_postgres
grant pg_read_all_data, pg_signal_backend to postgres; -- 20240606060239_grant_predefined_roles_to_postgres
alter database postgres owner to postgres; -- migrate.sh
grant all on database postgres to dashboard_user; -- 00000000000003-post-setup
-- For restoring dumps without triggers. There, the extension supautils allows it: supautils.conf.
grant set on parameter session_replication_role to postgres;

-- Not on Supabase: seed.sql takes this as the sign of a local stack.
alter database postgres set app.settings.local_stack = 'deno task start';

create schema extensions; -- 00000000000000-initial-schema
grant usage on schema extensions to anon, authenticated, service_role; -- the same
grant all on schema extensions to postgres, dashboard_user; -- 10000000000000_demote-postgres
create extension pgcrypto with schema extensions; -- 00000000000000-initial-schema
create extension "uuid-ossp" with schema extensions; -- the same
create extension pg_stat_statements with schema extensions; -- ansible/files/stat_extension.sql

grant usage on schema public to postgres, anon, authenticated, service_role; -- 00000000000000-initial-schema
-- What new projects leave of the automatic grants of all on tables, functions and sequences, since October 2026:
-- github.com/supabase/cli, apps/cli-go/internal/db/start/start.go. permissions_test.ts tries those of older projects.
alter default privileges for role postgres in schema public
  grant references, trigger, truncate on tables to anon, authenticated, service_role;

-- Hosted Auth has these, and Supabase Lite does not. The seed fills instance_id, the migrations read the others.
alter table auth.users add column instance_id uuid;
alter table auth.sessions add column oauth_client_id uuid;
create table auth.mfa_factors (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users on delete cascade,
  factor_type text not null default 'totp',
  status text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index mfa_factors_user_id_idx on auth.mfa_factors (user_id);
create table auth.webauthn_credentials (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users on delete cascade,
  credential_id bytea not null,
  public_key bytea not null
);

-- Not postgres owns them, and it creates nothing beside them: 20250421084701_revoke_admin_roles_from_postgres.
alter schema auth owner to supabase_auth_admin;
do $$
declare
  made regclass;
begin
  for made in select oid from pg_class where relnamespace = 'auth'::regnamespace and relkind in ('r', 'p') loop
    execute format('alter table %s owner to supabase_auth_admin', made); -- 20211115181400_update-auth-permissions
  end loop;
end $$;
grant usage on schema auth to anon, authenticated, service_role, postgres; -- 00000000000001-auth-schema
grant all on all tables in schema auth to postgres, dashboard_user; -- 20211115181400_update-auth-permissions
alter default privileges for role supabase_auth_admin in schema auth
  grant all on tables to postgres, dashboard_user; -- the same

-- The signed-in person, from the claims that PostgREST sets: github.com/supabase/auth, migrations.
create or replace function auth.jwt() returns jsonb language sql stable as $$
  select coalesce(
    nullif(current_setting('request.jwt.claim', true), ''), nullif(current_setting('request.jwt.claims', true), '')
  )::jsonb
$$;
create or replace function auth.uid() returns uuid language sql stable as $$
  select coalesce(
    nullif(current_setting('request.jwt.claim.sub', true), ''),
    nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub'
  )::uuid
$$;

-- PostgREST caches the schema. Each change tells it to reload; there, only those of what it caches do:
-- 20260923021047_update_pgrst_watch_triggers.
create function extensions.pgrst_watch() returns event_trigger language plpgsql as $$
begin
  notify pgrst, 'reload schema';
end
$$;
create event trigger pgrst_ddl_watch on ddl_command_end
  execute function extensions.pgrst_watch();
create event trigger pgrst_drop_watch on sql_drop
  execute function extensions.pgrst_watch();
