-- Writes an entry for each row that was there before log_table (docs/logging.md). Yours to change: the table documents
-- with its columns, the action, and the field document_id.

insert into audit_log.audit_entries (id, organization_id, created_at, action, user_email, agent_name, data)
select
  md5('documents ' || d.id)::uuid, o.id, d.created_at, 'document_created',
  coalesce(audit_log_private.valid_email(u.email), 'unknown@invalid'), audit_log_private.name_or_unnamed(d.title),
  jsonb_build_object('backfilled', true, 'document_id', d.id::text)
from public.documents d
cross join lateral (select audit_log_private.ensure_organization(d.organization_id::text) as id) o
left join auth.users u on u.id = d.created_by
where o.id is not null and not exists (
  select from audit_log.audit_entries e where e.action = 'document_created' and e.data ->> 'document_id' = d.id::text
)
on conflict (organization_id, created_at, id) do nothing;
