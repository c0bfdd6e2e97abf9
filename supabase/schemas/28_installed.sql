-- Which functions are as the last migration of this service made them. Others may replace some; a later version
-- replaces all others, so it first makes sure that nobody has changed them.

create table audit_log_private.installed_functions (
  name text primary key,
  md5 text not null
);
comment on table audit_log_private.installed_functions is
  'The functions as this service has installed them. note_installed_functions fills it, at the end of each migration.';

create function audit_log_private.present_functions() returns table (name text, md5 text)
-- All settings on which a definition as text depends.
language plpgsql stable set search_path = pg_catalog, pg_temp set timezone = 'UTC' set datestyle = 'ISO, YMD'
  set intervalstyle = 'postgres' set extra_float_digits = 1 set quote_all_identifiers = off
  set standard_conforming_strings = on as $$
begin
  return query
    select p.oid::regprocedure::text, md5(pg_get_functiondef(p.oid)) from pg_proc p
    where p.pronamespace in ('audit_log'::regnamespace, 'audit_log_private'::regnamespace)
      and p.proname <> all (audit_log_private.replaceable_functions())
      -- Somebody's aggregate has no definition as text.
      and p.prokind <> 'a'
      -- Made by log_table.
      and p.proname not like E'logged\\_%';
end $$;
comment on function audit_log_private.present_functions is 'The functions that nobody may replace, as they are now.';

create function audit_log_private.note_installed_functions() returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  delete from audit_log_private.installed_functions where true;
  insert into audit_log_private.installed_functions (name, md5)
  select f.name, f.md5 from audit_log_private.present_functions() as f;
end $$;
comment on function audit_log_private.note_installed_functions is
  'Notes the functions as they are now. The last statement of each migration.';

create function audit_log_private.replaced_functions() returns text[]
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return array(
    select i.name from audit_log_private.installed_functions i
    where not exists (
      select from audit_log_private.present_functions() as f where f.name = i.name and f.md5 = i.md5
    )
    order by i.name
  );
end $$;
comment on function audit_log_private.replaced_functions is
  'The functions that somebody has replaced or dropped, although no one may: a later version would undo it.';

create function audit_log_private.refuse_replaced_functions() returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  replaced constant text[] := audit_log_private.replaced_functions();
begin
  if replaced <> '{}' then
    raise exception 'nothing was changed, because these functions are not as they were installed: %',
      array_to_string(replaced, ', ')
      using errcode = 'object_not_in_prerequisite_state',
        hint = 'This version would replace them. Restore them from the installed migrations; functions that you may '
          'replace are in docs/adopting.md.';
  end if;
end $$;
comment on function audit_log_private.refuse_replaced_functions is
  'Before each migration after the first changes anything: raises 55000 if it would undo what somebody has changed.';
