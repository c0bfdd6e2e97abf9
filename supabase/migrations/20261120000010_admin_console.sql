-- What administrators read of their organization's log in the console.

create function private.read_audit_log(
  organization_id uuid,
  start_date date,
  end_date date,
  action public.audit_action,
  page_limit integer,
  page_offset bigint,
  newest_first boolean,
  after text
) returns json
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
  read record;
begin
  perform private.require_admin(organization_id);
  -- As in answer_request.
  perform set_config('synchronous_commit', 'on', true);
  read := private.read_entries(
    organization_id, start_date, end_date, action,
    least(greatest(page_limit, 1), 1000), greatest(page_offset, 0), coalesce(newest_first, true), after
  );
  if read.page is null then
    raise exception 'after is no cursor of this organization, range of days and action, or one from before a restore: start again with after=beginning'
      using errcode = 'invalid_parameter_value';
  end if;
  perform private.count_read(organization_id, auth.uid(), auth.jwt() ->> 'email', read.entries);
  -- Items as text, because a client's parser would round long numbers in data.
  return json_build_object(
    'total', read.page -> 'total', 'items', read.page ->> 'items', 'next', read.page -> 'next'
  );
end
$$;
comment on function private.read_audit_log is 'public.read_audit_log, with its owner''s rights.';
revoke execute on function private.read_audit_log from public, anon, authenticated, service_role;
grant execute on function private.read_audit_log to authenticated;

create function public.read_audit_log(
  organization_id uuid,
  start_date date,
  end_date date,
  action public.audit_action default null,
  page_limit integer default 100,
  page_offset bigint default 0,
  newest_first boolean default true,
  -- beginning, or next of the answer before. Then offset and order do not apply.
  after text default null
) returns json
language sql volatile set search_path = pg_catalog, pg_temp
as $$
  select private.read_audit_log(
    organization_id, start_date, end_date, action, page_limit, page_offset, newest_first, after
  )
$$;
comment on function public.read_audit_log is 'A page of an organization''s log: {total, items, next}. items is the text of a JSON array. Days are UTC, start and end included; a page has 1 to 1000 entries. With after, items are the entries that the cursor has not seen, and next is the next cursor; without, next is null. A wrong cursor is 22023. For administrators of the organization; others get 42501.';
revoke execute on function public.read_audit_log from public, anon, authenticated, service_role;
grant execute on function public.read_audit_log to authenticated;

create function private.daily_entry_counts(
  organization_id uuid,
  start_date date,
  end_date date,
  action public.audit_action
) returns json
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
begin
  perform private.require_admin(organization_id);
  return (
    select coalesce(json_agg(json_build_object('day', d.day, 'entries', d.entries) order by d.day), '[]')
    from (
      select c.day, sum(c.entries) as entries
      from private.entry_counts c
      where c.organization_id = daily_entry_counts.organization_id
        and c.day between start_date and end_date
        and (daily_entry_counts.action is null or c.action = daily_entry_counts.action)
      group by c.day
      having sum(c.entries) <> 0
    ) as d
  );
end
$$;
comment on function private.daily_entry_counts is 'public.daily_entry_counts, with its owner''s rights.';
revoke execute on function private.daily_entry_counts from public, anon, authenticated, service_role;
grant execute on function private.daily_entry_counts to authenticated;

create function public.daily_entry_counts(
  organization_id uuid,
  start_date date,
  end_date date,
  action public.audit_action default null
) returns json
language sql stable set search_path = pg_catalog, pg_temp
as $$ select private.daily_entry_counts(organization_id, start_date, end_date, action) $$;
comment on function public.daily_entry_counts is 'How many entries each UTC day of a range has: [{day, entries}], without days that have none. For administrators of the organization; others get 42501.';
revoke execute on function public.daily_entry_counts from public, anon, authenticated, service_role;
grant execute on function public.daily_entry_counts to authenticated;
