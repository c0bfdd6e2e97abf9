-- Many entries in one call, for a platform that writes the log from outside the database. Unlike a plain insert,
-- the call may be repeated when nobody knows whether the first one arrived.

create function audit_log.record_entries(entries jsonb) returns json
-- With the caller's rights: service_role may insert entries. Times without a zone are UTC.
language plpgsql volatile set search_path = pg_catalog, pg_temp set timezone = 'UTC' as $$
declare
  fields constant text[] := array['id', 'organization_id', 'created_at', 'action', 'user_email', 'agent_name', 'data'];
  items jsonb[];
  bad integer;
  first_item integer := 1;
  last_item integer;
  written bigint;
  recorded bigint := 0;
begin
  if jsonb_typeof(entries) is distinct from 'array' then
    raise exception 'entries is an array of objects' using errcode = 'invalid_parameter_value';
  end if;
  items := array(select jsonb_array_elements(entries));
  -- A misspelt field would be lost silently.
  select min(i.number) into bad from unnest(items) with ordinality as i (item, number)
  where case when jsonb_typeof(i.item) = 'object' then i.item - fields <> '{}' else true end;
  if bad is not null then
    raise exception 'entries[%] is refused, and nothing was recorded: an entry is an object with the fields %',
      bad - 1, array_to_string(fields, ', ')
      using errcode = 'invalid_parameter_value', detail = json_build_object('index', bad - 1, 'id', items[bad] -> 'id');
  end if;

  -- One statement for all. If it fails, halves of halves lead to the first bad entry. (Then two calls at once that
  -- are both refused may deadlock.)
  last_item := cardinality(items);
  while first_item <= cardinality(items) loop
    begin
      insert into audit_log.audit_entries (id, organization_id, created_at, action, user_email, agent_name, data)
      select e.id, e.organization_id, e.created_at, e.action, e.user_email, e.agent_name, coalesce(e.data, '{}')
      from unnest(items[first_item:last_item]) as item, jsonb_populate_record(null::audit_log.audit_entries, item) as e
      -- In one order, so that two calls with the same good entries cannot deadlock.
      order by e.organization_id, e.created_at, e.id
      on conflict (organization_id, created_at, id) do nothing;
      get diagnostics written = row_count;
      recorded := recorded + written;
      first_item := last_item + 1;
    exception
      -- Others, such as a timeout, are not the fault of an entry.
      when data_exception or integrity_constraint_violation then
        if first_item = last_item then
          raise exception 'entries[%] is refused, and nothing was recorded: %', first_item - 1, sqlerrm
            using errcode = sqlstate, detail = json_build_object('index', first_item - 1, 'id', items[first_item] -> 'id');
        end if;
        -- The bad one is not after this.
        bad := last_item;
    end;
    last_item := case when first_item <= bad then (first_item + bad) / 2 else cardinality(items) end;
  end loop;
  return json_build_object('recorded', recorded);
end $$;
comment on function audit_log.record_entries is 'Writes entries, all or none: [{id, organization_id, created_at, action, user_email, agent_name, data}]. An entry that is there already, by organization, created_at and id, is passed over, so a call may be repeated. Returns {recorded}: how many were new. A bad entry is refused with the error of an insert; the message has its place in the array, and details {index, id}. For service_role only.';
