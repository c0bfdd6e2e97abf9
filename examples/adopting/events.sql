-- Writes entries from a table of events that you keep already: the new ones by a trigger, the old ones in pieces.
-- Both give an event the same id and time, so they may overlap, and each event becomes one entry. Comes after
-- organizations.sql.
--
-- Write each action either here or with log_table. Otherwise it is in the log twice. If log_table writes an action from
-- now on, and your events have its past, limit the events of its kind to the time before you pushed that call:
-- and e.happened_at < '2026-11-23 04:51:10Z'. (Push it while nobody writes, so that no action is missing or twice.)
--
-- Yours to change: public.events with its columns, and what its kinds mean (others are not logged). id and happened_at
-- must be set and never change. id is any unique column of whole numbers. For a uuid, write uuid for bigint, also in the
-- loop of docs/adopting.md, which then starts with '00000000-0000-0000-0000-000000000000'.

create function audit_log_private.custom_record_events(ids bigint[]) returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  recorded bigint;
begin
  insert into audit_log.audit_entries (id, created_at, organization_id, action, user_email, agent_name, data)
  select
    md5('public.events ' || e.id)::uuid, e.happened_at, o.id, k.action,
    coalesce(audit_log_private.valid_email(e.email), 'unknown@invalid'), audit_log_private.name_or_unnamed(e.subject),
    -- Each value as a string of at most 100 characters.
    jsonb_build_object('document_id', coalesce(audit_log_private.cut(e.details ->> 'document', 100), ''))
  from public.events e
  join (
    values
      ('document.created', 'document_created'), ('document.updated', 'document_changed'),
      ('document.deleted', 'document_deleted')
  ) as k (kind, action) on k.kind = e.kind
  cross join lateral (select audit_log_private.organization_of(e.organization_id::text) offset 0) as o (id)
  where e.id = any(ids) and o.id is not null
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
