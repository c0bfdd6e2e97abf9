-- Makes an empty Postgres look like a new hosted Supabase project before any migration: roles, schemas, and no
-- automatic grants. local/stack.ts runs it once, as supabase_admin, after Auth has created its schema.

create role anon nologin noinherit;
create role authenticated nologin noinherit;
create role service_role nologin noinherit bypassrls;
-- local/stack.ts sets its password, which is different on every machine.
create role authenticator noinherit login;
grant anon, authenticated, service_role to authenticator;
-- As on Supabase. PostgREST applies the settings of the caller's role to each request.
alter role anon set statement_timeout = '3s';
alter role authenticated set statement_timeout = '8s';
alter role authenticator set statement_timeout = '8s';
alter role authenticator set lock_timeout = '8s';

-- Owns everything that the migrations create; local/stack.ts has created it. As on Supabase, it is no superuser,
-- so that what works here also works there.
grant anon, authenticated, service_role to postgres with admin option;
grant pg_monitor, pg_read_all_data, pg_signal_backend to postgres;
alter database postgres owner to postgres;
-- For restoring dumps without triggers. On Supabase, the extension supautils allows it.
grant set on parameter session_replication_role to postgres;

-- Not on Supabase: seed.sql takes this as the sign of a local stack.
alter database postgres set app.settings.local_stack = 'deno task start';

create schema extensions;
grant usage on schema extensions to public;
grant create on schema extensions to postgres;
create extension pgcrypto with schema extensions;

revoke all on schema public from public;
grant usage on schema public to anon, authenticated, service_role;

grant usage on schema auth to anon, authenticated, service_role;
grant all on schema auth to postgres;
grant all on all tables in schema auth to postgres;
-- Hosted Auth has these, and Supabase Lite may not. The seed fills instance_id, the migrations read the others.
alter table auth.users
  add column if not exists instance_id uuid,
  add column if not exists deleted_at timestamptz,
  add column if not exists banned_until timestamptz;
create table if not exists auth.mfa_factors (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users on delete cascade,
  factor_type text not null default 'totp',
  status text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index if not exists mfa_factors_user_id_idx on auth.mfa_factors (user_id);
grant all on auth.mfa_factors to postgres;

-- The signed-in person: PostgREST sets the claims.
create or replace function auth.jwt() returns jsonb language sql stable as $$
  select nullif(current_setting('request.jwt.claims', true), '')::jsonb
$$;
create or replace function auth.uid() returns uuid language sql stable as $$
  select (auth.jwt() ->> 'sub')::uuid
$$;

-- PostgREST caches the schema. As on Supabase, each change of the schema tells it to reload.
create function extensions.pgrst_ddl_watch() returns event_trigger language plpgsql as $$
begin
  if exists (
    select from pg_event_trigger_ddl_commands() where schema_name is distinct from 'pg_temp'
  ) then
    notify pgrst, 'reload schema';
  end if;
end
$$;
create event trigger pgrst_ddl_watch on ddl_command_end
  execute function extensions.pgrst_ddl_watch();
create function extensions.pgrst_drop_watch() returns event_trigger language plpgsql as $$
begin
  if exists (select from pg_event_trigger_dropped_objects() where not is_temporary) then
    notify pgrst, 'reload schema';
  end if;
end
$$;
create event trigger pgrst_drop_watch on sql_drop
  execute function extensions.pgrst_drop_watch();
