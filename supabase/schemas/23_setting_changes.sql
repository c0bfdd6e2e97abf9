-- What operators change leaves a record: who changed which setting, and when. Triggers write it, for settings that are
-- rows. Functions that a migration replaces fire none (an event trigger would be outside our schemas), so the upkeep
-- looks for these.

create table audit_log_private.setting_changes (
  id bigint generated always as identity primary key,
  at timestamptz not null default clock_timestamp(),
  who text,
  what text not null,
  -- No foreign key: delete_organization leaves these rows.
  organization_id uuid,
  before jsonb,
  after jsonb
);
comment on table audit_log_private.setting_changes is
  'The operator''s record of settings. It outlives organizations, and names no person of theirs.';
comment on column audit_log_private.setting_changes.who is
  'The role in the database, such as postgres, or authenticator as service_role. Null if the upkeep found the change.';

create index setting_changes_organization_idx on audit_log_private.setting_changes (organization_id, what, id);

create index setting_changes_at_idx on audit_log_private.setting_changes (at);

create trigger refuse_change
  before update or delete or truncate on audit_log_private.setting_changes
  for each statement execute function audit_log_private.refuse_change('setting_changes is append-only');

create function audit_log_private.operator() returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  role constant text := current_setting('role');
begin
  return session_user || case when role not in ('none', session_user) then ' as ' || role else '' end;
end $$;
comment on function audit_log_private.operator is
  'The role that somebody has signed in to the database with, and the one they act as.';

create function audit_log_private.note_setting(what text, organization_id uuid, before jsonb, after jsonb) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  if before is distinct from after then
    insert into audit_log_private.setting_changes (who, what, organization_id, before, after)
    values (audit_log_private.operator(), what, organization_id, before, after);
  end if;
end $$;
comment on function audit_log_private.note_setting is 'Records a setting, if it has changed.';

create function audit_log_private.note_organization() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if tg_op = 'DELETE' then
    perform audit_log_private.note_setting(
      'deleted', old.id, jsonb_build_object('external_id', coalesce(old.external_id, old.former_external_id)), null
    );
    return null;
  end if;
  perform
    audit_log_private.note_setting('keep_days', new.id, to_jsonb(old.keep_days), to_jsonb(new.keep_days)),
    audit_log_private.note_setting(
      'logs_key_events', new.id, to_jsonb(old.logs_key_events), to_jsonb(new.logs_key_events)
    ),
    audit_log_private.note_setting('external_id', new.id, to_jsonb(old.external_id), to_jsonb(new.external_id));
  if new.leaving_at is not null and old.leaving_at is null then
    perform audit_log_private.note_setting(
      'deletion begun', new.id,
      jsonb_build_object(
        'external_id', coalesce(new.external_id, new.former_external_id),
        'entries', (
          select coalesce(sum(c.entries), 0) from audit_log_private.entry_counts c where c.organization_id = new.id
        ),
        'last_seal', (
          select audit_log_private.seal_json(s) from audit_log_private.chain_end(new.id) as s
          where s.sequence is not null
        )
      ),
      null
    );
  end if;
  return null;
end $$;
comment on function audit_log_private.note_organization is
  'Records the settings of an organization, and its deletion, with how many entries it had and its last seal.';

create trigger note_change
  after update on audit_log.organizations
  for each row when (
    (new.keep_days, new.logs_key_events, new.external_id, new.leaving_at)
      is distinct from (old.keep_days, old.logs_key_events, old.external_id, old.leaving_at)
  )
  execute function audit_log_private.note_organization();

create trigger note_deletion
  after delete on audit_log.organizations
  for each row execute function audit_log_private.note_organization();

create function audit_log_private.note_hold() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  -- Null unless it stands.
  before constant jsonb := case
    when old.organization_id is not null and old.released_at is null then jsonb_build_object('reason', old.reason)
  end;
  after constant jsonb := case
    when new.organization_id is not null and new.released_at is null then jsonb_build_object('reason', new.reason)
  end;
begin
  if (old.organization_id, before) is distinct from (new.organization_id, after) then
    perform
      audit_log_private.note_setting('hold', old.organization_id, before, null),
      audit_log_private.note_setting('hold', new.organization_id, null, after);
  end if;
  return null;
end $$;
comment on function audit_log_private.note_hold is
  'Records that a hold was given, released, or changed in another way, as the owner of the table can.';

create trigger note_change
  after insert or update or delete on audit_log_private.holds
  for each row execute function audit_log_private.note_hold();

create trigger refuse_change
  before truncate on audit_log_private.holds
  for each statement execute function audit_log_private.refuse_change('release them one by one');

create function audit_log_private.note_action() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform audit_log_private.note_setting(
    'action ' || coalesce(old.code, new.code), null,
    to_jsonb(old) - '{required_path,position}'::text[], to_jsonb(new) - '{required_path,position}'::text[]
  );
  return null;
end $$;
comment on function audit_log_private.note_action is 'Records a change of the catalogue of actions.';

create trigger note_change
  after insert or update or delete on audit_log.actions
  for each row execute function audit_log_private.note_action();

create function audit_log_private.note_functions(who text default audit_log_private.operator()) returns void
-- All settings on which a definition as text depends.
language plpgsql volatile set search_path = pg_catalog, pg_temp set timezone = 'UTC' set datestyle = 'ISO, YMD'
  set intervalstyle = 'postgres' set extra_float_digits = 1 set quote_all_identifiers = off
  set standard_conforming_strings = on as $$
begin
  insert into audit_log_private.setting_changes (who, what, before, after)
  select note_functions.who, coalesce(p.what, n.what), n.after, p.definition
  from (
    select 'function ' || f.proname as what, to_jsonb(pg_get_functiondef(f.oid)) as definition
    from pg_proc f
    where f.pronamespace = 'audit_log_private'::regnamespace
      and f.proname = any (audit_log_private.replaceable_functions())
    union all
    -- What log_table has made. Its comment has the arguments.
    select 'logged table ' || f.proname, obj_description(f.oid, 'pg_proc')::jsonb
    from pg_proc f
    where f.pronamespace = 'audit_log_private'::regnamespace and f.proname like E'logged\\_%'
      and f.prorettype = 'trigger'::regtype
  ) as p
  full join (
    select distinct on (c.what) c.what, c.after from audit_log_private.setting_changes c
    where c.what like 'function %' or c.what like 'logged table %'
    order by c.what, c.id desc
  ) as n on n.what = p.what
  where p.definition is distinct from n.after;
end $$;
comment on function audit_log_private.note_functions is
  'Records which functions that others may replace, and which logged tables, are not as they were last recorded.';
