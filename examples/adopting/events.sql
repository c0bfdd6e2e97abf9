-- Writes entries from a table of events that you keep already: the new ones by a trigger, the old ones in pieces.
-- Both give an event the same id and time, so they may overlap, and each event becomes one entry. Comes after
-- values.sql, and after what fills audit_log.organizations.
--
-- Write each action either here or with a trigger of entries.sql. Otherwise it is in the log twice. If entries.sql
-- writes an action from now on, and your events have its past, limit the events of its kind to the time before you
-- pushed entries.sql: and e.happened_at < '2026-11-23 04:51:10Z'. (Push it while nobody writes, so that no action is
-- missing or twice.)
--
-- Yours to change: public.events with its columns, and what its kinds mean. id and happened_at must be set and
-- must never change. id is any unique column of whole numbers; for a uuid, write uuid for bigint, also in
-- the loop of docs/adopting.md, which then starts with '00000000-0000-0000-0000-000000000000'. Kinds that are not named
-- are not logged.

create function audit_log_private.custom_record_events(ids bigint[]) returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  recorded bigint;
begin
  insert into audit_log.audit_entries (id, created_at, organization_id, action, user_email, agent_name, data)
  select
    md5('public.events ' || e.id)::uuid, e.happened_at, o.id, k.action,
    audit_log_private.custom_email(e.email), audit_log_private.custom_text(e.agent, 'unnamed'),
    case k.action
      when 'agent_added' then jsonb_build_object('agent_id', d.agent, 'platform_agent_sid', d.sid)
      when 'conversation_created' then jsonb_build_object('conversation_id', d.conversation, 'agent_id', d.agent)
      when 'message_created' then jsonb_build_object(
        'message_id', d.message, 'conversation_id', d.conversation, 'agent_id', d.agent, 'platform_agent_sid', d.sid
      )
      when 'feedback_given' then jsonb_build_object(
        'message_id', d.message, 'conversation_id', d.conversation, 'feedback', d.feedback
      )
    end
  from public.events e
  join (
    values
      ('agent.created', 'agent_added'), ('conversation.started', 'conversation_created'),
      ('message.sent', 'message_created'), ('message.rated', 'feedback_given')
  ) as k (kind, action) on k.kind = e.kind
  cross join lateral (
    select
      audit_log_private.custom_value(e.details ->> 'agent') as agent,
      audit_log_private.custom_value(e.details ->> 'sid') as sid,
      audit_log_private.custom_value(e.details ->> 'conversation') as conversation,
      audit_log_private.custom_value(e.details ->> 'message') as message,
      audit_log_private.custom_value(e.details ->> 'thumb') as feedback
  ) as d
  left join audit_log.organizations o on o.external_id = e.organization_id::text
  where e.id = any(ids)
  on conflict (organization_id, created_at, id) do nothing;
  get diagnostics recorded = row_count;
  return recorded;
end $$;
comment on function audit_log_private.custom_record_events is 'Writes the entries of these events, unless they are there. Returns how many were new.';

create function audit_log_private.custom_events() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform audit_log_private.custom_record_events(array(select e.id from added e));
  return null;
end $$;
comment on function audit_log_private.custom_events is 'Writes the entries of new events.';
create trigger audit_log_insert
  after insert on public.events referencing new table as added
  for each statement execute function audit_log_private.custom_events();

create function audit_log_private.custom_backfill(inout place bigint, out recorded bigint)
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  ids constant bigint[] := array(select e.id from public.events e where e.id > place order by e.id limit 10000);
begin
  recorded := audit_log_private.custom_record_events(ids);
  place := ids[cardinality(ids)];
end $$;
comment on function audit_log_private.custom_backfill is 'Writes the entries of the next 10,000 events after a place, an id. Returns the next place, null at the end, and how many entries were new.';

revoke all on function audit_log_private.custom_record_events, audit_log_private.custom_events, audit_log_private.custom_backfill
from public, anon, authenticated, service_role;

-- Fires the trigger with no row. If a name is wrong, this migration fails now, and your application does not.
insert into public.events (organization_id) select organization_id from public.events where false;
