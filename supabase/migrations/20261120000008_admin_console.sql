-- What an organization's administrators read in the admin console, besides the tables themselves.
-- Row level security decides here too: for anybody else there are no keys and no entries.

create view public.api_key_usage with (security_invoker = true) as
select
  k.id as api_key_id,
  k.organization_id,
  k.name,
  k.hint,
  k.created_at,
  k.revoked_at,
  r.accepted_at[cardinality(r.accepted_at)] as last_used_at,
  (
    select count(*)::integer from unnest(r.accepted_at) as t
    where t > clock_timestamp() - interval '60 seconds'
  ) as requests_last_minute
from public.api_keys k
join private.rate_limits r on r.api_key_id = k.id;
comment on view public.api_key_usage is 'Each API key: when it was last accepted, and how many of its 60 requests the last minute has used.';
revoke all on public.api_key_usage from public, anon, authenticated, service_role;
grant select on public.api_key_usage to authenticated;

create function public.read_audit_log(
  organization_id uuid,
  start_date date,
  end_date date,
  action public.audit_action default null,
  page_limit integer default 100,
  page_offset bigint default 0,
  newest_first boolean default true
) returns json
language sql stable set search_path = ''
as $$
  select private.read_page(
    organization_id, start_date, end_date, action,
    least(greatest(page_limit, 0), 1000), greatest(page_offset, 0), coalesce(newest_first, true)
  )
$$;
comment on function public.read_audit_log is 'A page of an organization''s log for its signed-in administrators: {total, items}, the items as the text of a JSON array. Days are UTC, both inclusive; a page has at most 1000 entries.';
revoke execute on function public.read_audit_log from public, anon, authenticated, service_role;
grant execute on function public.read_audit_log to authenticated;
