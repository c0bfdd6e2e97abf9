-- The audit log. The platform writes it as service_role with a plain insert. Nobody changes it.
--
-- The primary key is also the paging index. It starts with the organization, like every key here, so that
-- organizations can be distributed over machines without changing the API. Pages of one action use an index
-- of their own, because entries of a rare action are far apart in the primary key. The third index is the
-- feed's: it finds what was written lately, whatever its time.
-- There is no updated_at, and no foreign key to the user or the agent: an entry outlives both.

create type audit_log.audit_action as enum ('agent_added', 'conversation_created', 'message_created', 'feedback_given');

create function audit_log_private.uuid_v7() returns uuid
language sql volatile set search_path = pg_catalog, pg_temp as $$
  -- A random version 4 UUID with the first 48 bits replaced by the time and the version by 7.
  select encode(
    set_bit(set_bit(
      overlay(
        uuid_send(gen_random_uuid())
        placing substring(int8send(floor(extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
        from 1 for 6
      ), 52, 1), 53, 1), 'hex')::uuid
$$;
comment on function audit_log_private.uuid_v7 is 'A time-ordered UUID (RFC 9562 section 5.7): new entries land at the right edge of the index. Postgres 18 has its own.';

create function audit_log_private.log_epoch() returns bigint
language plpgsql stable as $$
begin
  return 0;
end $$;
comment on function audit_log_private.log_epoch is 'How often this log was restored. adopt_restored_log() replaces it: a constant costs writers less than a row of a table.';

create table audit_log.audit_entries (
  id uuid not null default audit_log_private.uuid_v7(),
  organization_id uuid not null references audit_log.organizations,
  -- Microseconds are kept, and the API cuts them off to milliseconds. timestamptz(3) would round, and move
  -- an entry in a day's last half millisecond into the next day.
  created_at timestamptz not null default clock_timestamp(),
  action audit_log.audit_action not null,
  user_email text not null,
  agent_name text not null,
  data jsonb not null default '{}',
  -- For the feed. No writer can set it: no role is granted insert on it.
  transaction_id xid8 not null default
    ((audit_log_private.log_epoch() << 40) + pg_current_xact_id()::text::bigint)::text::xid8,
  primary key (organization_id, created_at, id),
  -- So that the API, which takes the dates 0001-01-01 to 9999-12-31, reaches every entry.
  constraint created_at_within_api_dates check (
    created_at >= '0001-01-01 00:00:00+00' and created_at < '10000-01-01 00:00:00+00'
  ),
  -- A loose check: a log that refuses an unusual address loses an entry.
  constraint user_email_is_address check (user_email like '%_@_%'),
  -- Keeps a page of 1000 entries below some 6 MB: the Edge Function has little memory.
  constraint entry_is_small check (
    char_length(user_email) <= 320 and char_length(agent_name) <= 200 and octet_length(data::text) <= 4096
  ),
  constraint data_is_object check (jsonb_typeof(data) = 'object'),
  -- "is true", because a missing field makes the comparison null, and a null check passes.
  constraint message_created_has_identifiers check (
    action <> 'message_created' or (
      jsonb_typeof(data -> 'message_id') = 'string'
      and jsonb_typeof(data -> 'conversation_id') = 'string'
      and jsonb_typeof(data -> 'agent_id') = 'string'
      and jsonb_typeof(data -> 'platform_agent_sid') = 'string'
    ) is true
  )
);
comment on table audit_log.audit_entries is 'The audit log: append-only. Written by the platform as service_role, read through public_audit_log, deleted only by the owner (retention).';
comment on column audit_log.audit_entries.created_at is 'When the action happened.';
comment on column audit_log.audit_entries.transaction_id is 'The transaction that wrote the entry, by which the feed and the seals know what has been seen. Above the lowest 40 bits is the log''s epoch, so that entries from before a restore are older than all that come after it.';
comment on column audit_log.audit_entries.data is 'Identifiers of what the action was about. Which ones depends on the action.';

create index audit_entries_action_idx on audit_log.audit_entries (organization_id, action, created_at, id);
create index audit_entries_transaction_idx on audit_log.audit_entries (organization_id, transaction_id, created_at, id);

create function audit_log_private.refuse_change() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  raise exception '% is append-only: % refused', tg_table_name, tg_op
    using errcode = 'insufficient_privilege';
end $$;
comment on function audit_log_private.refuse_change is 'Makes a table append-only for every role, its owner included.';

create trigger refuse_change
  before update or truncate on audit_log.audit_entries
  for each statement execute function audit_log_private.refuse_change();

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
