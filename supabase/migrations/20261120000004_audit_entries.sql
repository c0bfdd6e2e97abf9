-- The audit log. The platform writes it as service_role with a plain insert. Nobody changes it.
--
-- The primary key is also the paging index. It starts with the organization, like every key here, so that
-- organizations can be distributed over machines without changing the API. Pages of one action use an index
-- of their own, because entries of a rare action are far apart in the primary key; so do those of one person. The
-- last index is the feed's: it finds what was written lately, whatever its time.
-- There is no updated_at, and no foreign key to the user or the agent: an entry outlives both.

-- The catalogue of actions. One more is one row here; docs/adopting.md says how. Only the owner writes it, so that no
-- typo makes an action. A code stands in JSON and in addresses as it is.

create function audit_log_private.required_path(required text[]) returns jsonpath
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  return (
    select coalesce(string_agg(format('$.%s.type() == "string"', to_json(name)), ' && '), '$.type() == "object"')
    from unnest(required) as name where name is not null
  )::jsonpath;
end $$;
comment on function audit_log_private.required_path is 'The condition on data that it is an object and each of these fields is a string.';

create table audit_log.actions (
  code text collate "C" primary key check (code ~ '^[A-Za-z0-9][A-Za-z0-9_.:-]{0,62}$'),
  description text not null,
  required text[] not null default '{}' check (array_position(required, null) is null),
  required_path jsonpath generated always as (audit_log_private.required_path(required)) stored,
  deprecated_at timestamptz,
  -- The order of lists.
  position bigint generated always as identity
);
comment on table audit_log.actions is 'The actions that entries may have. To add one, insert a row; it counts from the commit on.';
comment on column audit_log.actions.required is 'Names of fields that data must have, as strings. A change concerns later entries only.';
comment on column audit_log.actions.required_path is 'required as a condition on data, for broken_rule.';
comment on column audit_log.actions.deprecated_at is 'Since when the platform should not write it any more. Nothing is refused for it.';

insert into audit_log.actions (code, description, required)
values
  ('agent_added', 'An agent was activated for the organization', '{}'),
  ('conversation_created', 'A user started a new conversation', '{}'),
  (
    'message_created', 'A user sent a message in a conversation',
    '{message_id,conversation_id,agent_id,platform_agent_sid}'
  ),
  ('feedback_given', 'A user gave thumbs up or thumbs down feedback on a message', '{}');

create function audit_log_private.log_epoch() returns bigint
language plpgsql stable as $$
begin
  return 0;
end $$;
comment on function audit_log_private.log_epoch is 'How often this log was restored. adopt_restored_log() replaces it.';

create function audit_log_private.entry_number() returns xid8
language plpgsql as $$
begin
  return pg_catalog.pg_current_xact_id();
end $$;
comment on function audit_log_private.entry_number is 'The transaction''s number, above which is the log''s epoch. adopt_restored_log() replaces it, too.';

create table audit_log.audit_entries (
  id uuid not null default gen_random_uuid(),
  -- No foreign key, which would make a bulk load half as long again. count_entries looks, once a statement.
  organization_id uuid not null,
  -- Microseconds are kept, and the API cuts them off to milliseconds. timestamptz(3) would round, and move
  -- an entry in a day's last half millisecond into the next day.
  created_at timestamptz not null default clock_timestamp(),
  -- In the catalogue. No foreign key, because writers would share a lock on each action's row.
  action text collate "C" not null,
  user_email text collate "C" not null,
  agent_name text not null,
  data jsonb not null default '{}',
  -- For the feed. No writer can set it: no role is granted insert on it.
  transaction_id xid8 not null default audit_log_private.entry_number(),
  primary key (organization_id, created_at, id)
);
comment on table audit_log.audit_entries is 'The audit log: append-only. Written by the platform as service_role, read through public_audit_log, deleted only by the owner (retention).';
comment on column audit_log.audit_entries.created_at is 'When the action happened.';
comment on column audit_log.audit_entries.transaction_id is 'The transaction that wrote the entry, by which the feed and the seals know what has been seen. Above the lowest 40 bits is the log''s epoch, so that entries from before a restore are older than all that come after it.';
comment on column audit_log.audit_entries.data is 'Identifiers of what the action was about. Which ones depends on the action.';

create index audit_entries_action_idx on audit_log.audit_entries (organization_id, action, created_at, id);
-- With the action, so that a person's entries are counted within the index.
create index audit_entries_person_idx on audit_log.audit_entries (organization_id, user_email, created_at, id) include (action);
create index audit_entries_transaction_idx on audit_log.audit_entries (organization_id, transaction_id, created_at, id);

-- Asked by count_entries, once a statement. As check constraints of the table, which every statement plans anew, the
-- rules cost more than the rest of the insert.
create function audit_log_private.broken_rule(
  created_at timestamptz, user_email text, agent_name text, data jsonb, required_path jsonpath
) returns text
language sql immutable
return case
  when required_path is null then 'action_is_in_catalogue'
  -- So that the API, which takes the dates 0001-01-01 to 9999-12-31, reaches every entry.
  when created_at < '0001-01-01 00:00:00+00' or created_at >= '10000-01-01 00:00:00+00' then 'created_at_within_api_dates'
  -- A loose check: a log that refuses an unusual address loses an entry.
  when user_email not like '%_@_%' then 'user_email_is_address'
  -- The three sizes keep a page of 1000 entries below some 6 MB: the Edge Function has little memory.
  when pg_catalog.char_length(user_email) > 320 then 'user_email_is_short'
  when pg_catalog.char_length(agent_name) > 200 then 'agent_name_is_short'
  when pg_catalog.octet_length(data::text) > 4096 then 'data_is_small'
  when pg_catalog.jsonb_typeof(data) <> 'object' then 'data_is_object'
  -- Common JSON parsers refuse a whole page in which one value is nested too deeply. This takes 0.4 µs.
  when data @? 'strict $.**{33}' then 'data_is_shallow'
  -- A missing field has no type, and the comparison is then false.
  when not data @@ required_path then 'data_has_required'
end;
comment on function audit_log_private.broken_rule is 'The first rule that an entry breaks; null if it breaks none. required_path: of its action; null if that is not in the catalogue.';

create function audit_log_private.refuse_change() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  raise exception '% is append-only: % refused', tg_table_name, tg_op using errcode = 'insufficient_privilege';
end $$;
comment on function audit_log_private.refuse_change is 'Makes a table append-only for every role, its owner included.';

create trigger refuse_change
  before update or truncate on audit_log.audit_entries
  for each statement execute function audit_log_private.refuse_change();

create function audit_log_private.change_action() returns trigger
-- lock_timeout: new writers wait behind it.
language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '2s' as $$
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'an action can only be changed or deleted in read committed' using errcode = 'invalid_transaction_state';
  end if;
  -- Waits for writers, who may be using it.
  lock table audit_log.audit_entries in share row exclusive mode;
  if tg_op = 'DELETE' or new.code <> old.code then
    perform from audit_log_private.entry_counts c where c.action = old.code;
    if found then
      raise exception 'entries have or had the action %: it cannot be renamed or deleted, only deprecated', old.code
        using errcode = 'foreign_key_violation';
    end if;
  end if;
  -- Writers then look here again.
  update audit_log_private.entry_counts c set required_path = null where c.action = old.code and c.writer_pid <> 0;
  return case when tg_op = 'DELETE' then old else new end;
end $$;
comment on function audit_log_private.change_action is 'Refuses to rename or delete an action that entries have, and makes a change of required known to writers. Raises 55P03 when a writer does not commit within 2 seconds; 40P01, as it may beside the upkeep: then try again.';

create trigger change_action
  before update of code, required or delete on audit_log.actions
  for each row execute function audit_log_private.change_action();

create trigger refuse_change
  before truncate on audit_log.actions
  for each statement execute function audit_log_private.refuse_change();

create function audit_log_private.add_key_actions() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into audit_log.actions (code, description)
  values
    ('api_key_created', 'An administrator created an API key for this log'),
    ('api_key_rotated', 'An administrator replaced an API key with a new one'),
    ('api_key_revoked', 'An administrator revoked an API key')
  on conflict do nothing;
  return null;
end $$;
comment on function audit_log_private.add_key_actions is 'Adds the actions of API keys to the catalogue, once an organization logs them.';

create trigger add_key_actions
  after insert or update of logs_key_events on audit_log.organizations
  for each row when (new.logs_key_events) execute function audit_log_private.add_key_actions();

-- Format 1 of an entry, frozen: seals are hashes of it, and customers keep files of it. Only a new format, named
-- by the seals that use it, may differ (docs/verifying.md). A new fact about an entry goes into data.
-- Without settings and as an expression, so that Postgres inlines it: its names are resolved here, once.
create function audit_log_private.entry_line(entry audit_log.audit_entries) returns text
language sql stable
return '{"id":"' || entry.id
  || '","created_at":"' || pg_catalog.to_char(entry.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
  || '","action":"' || entry.action
  || '","user_email":' || pg_catalog.to_json(entry.user_email)
  || ',"agent_name":' || pg_catalog.to_json(entry.agent_name)
  || ',"data":' || entry.data
  || '}';
comment on function audit_log_private.entry_line is 'An entry as text, in JSON without line breaks. The only place where an entry becomes text.';
