-- Makes an empty Postgres look like a new hosted Supabase project, before any migration: its roles,
-- its schemas, and no automatic grants. Run once, by supabase_admin, after schema auth is there.

create role anon nologin noinherit;
create role authenticated nologin noinherit;
create role service_role nologin noinherit bypassrls;
create role authenticator noinherit login;
grant anon, authenticated, service_role to authenticator;

-- The owner of everything the migrations make. As on the platform it is not a superuser, so what
-- works here does not work only here.
create role postgres login createrole createdb replication bypassrls password 'postgres';
grant anon, authenticated, service_role to postgres with admin option;
grant pg_monitor, pg_read_all_data, pg_signal_backend to postgres;
alter database postgres owner to postgres;

create schema extensions;
grant usage on schema extensions to public;
grant create on schema extensions to postgres;
create extension pgcrypto with schema extensions;

revoke all on schema public from public;
grant usage on schema public to anon, authenticated, service_role;

grant usage on schema auth to anon, authenticated, service_role;
grant all on schema auth to postgres;
grant all on all tables in schema auth to postgres;
-- A hosted project's Auth looks users up by it; the stand-in has no such column. For the seed.
alter table auth.users add column instance_id uuid;
