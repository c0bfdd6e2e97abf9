-- log_table logs a table of the platform (docs/logging.md). For a table `documents`, it makes triggers, and:
--
--  - logged_documents(jsonb), which is never called. It selects the columns that log_table names, in SQL that Postgres
--    has parsed. So Postgres prints it with the names that they have now, and refuses to drop them or to change their
--    types, and to drop the function of the platform (computed). Each trigger's condition names it. So
--    `drop … cascade` drops the triggers, too, and no write breaks.
--  - logged_documents(), which the triggers call. Once a column has another name, each write makes its statement anew,
--    which is slower, until the upkeep has made the function anew. Its comment has what was made of the arguments.

create function audit_log_private.logged_tables()
returns table (logged regclass, trigger_function regprocedure, arguments jsonb)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return query
    select
      -- By its triggers, because it may have another name now; by its name, if it has lost the triggers.
      coalesce(
        (select t.tgrelid from pg_trigger t where t.tgfoid = p.oid and t.tgparentid = 0 limit 1)::regclass,
        to_regclass(c.arguments ->> 'logged')
      ),
      p.oid::regprocedure, c.arguments
    from pg_proc p cross join lateral (select obj_description(p.oid, 'pg_proc')::jsonb) as c (arguments)
    where p.pronamespace = 'audit_log_private'::regnamespace and p.prorettype = 'trigger'::regtype
      and p.proname like E'logged\\_%';
end $$;
comment on function audit_log_private.logged_tables is
  'The tables that log_table logs. logged: null if the table is gone. arguments: of the call, with what it found out.';

create function audit_log_private.required_but_missing(action text, names text[]) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return (
    select case
      when a.code is null then format('the action %L is not in the table audit_log.actions', action)
      when not a.required <@ names then format(
        'the action %L requires %s, which data does not name', action,
        (select string_agg(r, ', ') from unnest(a.required) as r where r <> all (names))
      )
    end
    from (select) as one_row left join audit_log.actions a on a.code = action
  );
end $$;
comment on function audit_log_private.required_but_missing is 'Why such entries would be refused, or null.';

create table audit_log_private.logging_failures (
  logged text not null,
  writer_pid integer not null,
  failures bigint not null,
  last_at timestamptz not null,
  last_error text not null,
  primary key (logged, writer_pid)
);
comment on table audit_log_private.logging_failures is 'Statements without their entries (carry_on), by backend.';

create function audit_log_private.note_failure(logged text, error text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  insert into audit_log_private.logging_failures as f (logged, writer_pid, failures, last_at, last_error)
  values (logged, pg_backend_pid(), 1, clock_timestamp(), left(error, 500))
  on conflict on constraint logging_failures_pkey do update
  set failures = f.failures + 1, last_at = excluded.last_at, last_error = excluded.last_error;
end $$;
comment on function audit_log_private.note_failure is 'Counts a statement whose entries could not be written.';

create function audit_log_private.logging_problems() returns table (logged text, problem text)
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  return query
    with of_nobody as materialized (
      select e.action, count(*) as entries
      from audit_log.organizations o
      cross join lateral (
        select e.action from audit_log.audit_entries e
        where e.organization_id = o.id and lower(e.user_email) = 'unknown@invalid'
          and e.created_at > now() - interval '1 day'
          and e.data #>> '{caller,kind}' = 'secret_key'
          and coalesce(e.data #>> '{caller,on_behalf_of,id}', e.data #>> '{caller,on_behalf_of,email}') is null
        -- One look into the index of persons for each organization.
        offset 0
      ) as e
      group by e.action
    )
    select coalesce(l.logged::text, l.arguments ->> 'logged'), p.problem
    from audit_log_private.logged_tables() l
    cross join lateral (
      select case
        when l.logged is null
          then format('the table is gone. Drop %s, or log the table that replaces it', l.trigger_function)
        when t.oid is null then format('the trigger of on_%s is gone: call log_table again', e.event)
        else format('the trigger of on_%s is disabled', e.event)
      end
      from (values ('insert', 4), ('delete', 8), ('update', 16)) as e (event, bit)
      left join pg_trigger t on t.tgfoid = l.trigger_function and t.tgparentid = 0 and t.tgtype & e.bit > 0
      where l.arguments ? ('on_' || e.event) and (t.tgenabled in ('O', 'A')) is not true
      union all
      select audit_log_private.required_but_missing(a.value, (l.arguments ->> 'names')::text[])
      from jsonb_each_text(l.arguments) as a (name, value) where a.name in ('on_insert', 'on_update', 'on_delete')
      union all
      -- Partitions, and tables that inherit.
      select format('writes that name its child %s are not logged', i.inhrelid::regclass) from pg_inherits i
      where i.inhparent = l.logged
        and i.inhrelid not in (select o.logged from audit_log_private.logged_tables() o where o.logged is not null)
      union all
      select format(
        'the secret key wrote %s entries in the last 24 hours and named nobody: send the header X-Audit-Person',
        sum(n.entries)
      )
      from of_nobody n
      where n.action in (l.arguments ->> 'on_insert', l.arguments ->> 'on_update', l.arguments ->> 'on_delete')
      having count(*) > 0
    ) as p (problem)
    where p.problem is not null;
end $$;
comment on function audit_log_private.logging_problems is
  'Why actions are missing from the log, or will be; and which tables the secret key wrote without saying for whom.';

create function audit_log_private.require_computed(computed jsonb, fields text[]) returns boolean
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  if jsonb_typeof(computed) <> 'object' or not computed ?& fields then
    raise exception 'the function that log_table calls (computed) returned no object with the fields %', fields
      using errcode = 'invalid_parameter_value';
  end if;
  return computed is not null;
end $$;
comment on function audit_log_private.require_computed is
  'Whether a row is to be logged: false if computed is null. Raises 22023 if computed is not what it must be.';

create function audit_log_private.with_changes(
  data jsonb, names text[], kinds text[], former text[], present text[]
) returns jsonb
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
  changes jsonb := jsonb '{}';
begin
  for n in 1 .. cardinality(names) loop
    if former[n] is distinct from present[n] then
      changes := changes || jsonb_build_object(names[n], jsonb_build_array(
        audit_log_private.json_value(former[n], kinds[n]), audit_log_private.json_value(present[n], kinds[n])
      ));
    end if;
  end loop;
  return case when changes = '{}' then data else data || jsonb_build_object('changes', changes) end;
end $$;
comment on function audit_log_private.with_changes is 'data with changes: {name: [old, new]} of values that differ.';

create function audit_log_private.named_values(logged regclass, given jsonb)
returns table (role text, n bigint, name text, field text, selected text, value text, kind text, is_fixed boolean)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  -- What is within quotes is part of a name.
  outside_quotes constant text := '(?=(?:[^"]*"[^"]*")*[^"]*$)';
begin
  return query
    select
      v.role, v.n, v.name, case when a.attname is null then v.field end,
      't.' || quote_ident(a.attname) || ' as ' || v.role || v.n,
      case
        when a.attname is not null then v.role || v.n || '::text'
        when v.role = 'changes' then format('nullif(computed -> %L, ''null'')::text', v.field)
        else format('(computed ->> %L)', v.field)
      end,
      -- By the function that writes values of a type as text: a domain has that of the type under it.
      case
        when a.attname is null then 'json'
        when t.typoutput = 'boolout'::regproc then 'boolean'
        when t.typoutput::text in ('int2out', 'int4out', 'int8out', 'float4out', 'float8out', 'numeric_out')
          then 'number'
        else 'string'
      end,
      t.typoutput::text in (
        'bpcharout', 'boolout', 'enum_out', 'int2out', 'int4out', 'int8out', 'json_out', 'jsonb_out', 'nameout',
        'numeric_out', 'textout', 'uuid_out', 'varcharout'
      )
    from (
      select
        l.key as role, i.n, array_to_string(parse_ident(w.words[1]), '.') as field, array_to_string(
          parse_ident(coalesce(nullif(array_to_string(w.words[2:], ' as '), ''), w.words[1])), '.'
        ) as name
      from jsonb_each_text(given) as l
      cross join regexp_split_to_table(nullif(btrim(l.value), ''), ',' || outside_quotes) with ordinality as i (item, n)
      cross join regexp_split_to_array(btrim(i.item), E'\\s+as\\s+' || outside_quotes, 'i') as w (words)
      where l.key in ('organization', 'agent_name', 'person', 'data', 'changes')
      union all
      select 'key', a.attnum, a.attname, a.attname from pg_index i
      join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any ((i.indkey::smallint[])[0:i.indnkeyatts - 1])
      where i.indrelid = logged and i.indisprimary and given ? 'changes'
    ) as v
    -- Triggers do not see the value of virtual generated columns.
    left join pg_attribute a
      on a.attrelid = logged and a.attname = v.field and a.attnum > 0 and a.attgenerated <> 'v'
    left join pg_type t on t.oid = a.atttypid;
end $$;
comment on function audit_log_private.named_values is
  'What lists such as "id as document_id, title" name, and the primary key. field: of computed, if it is no column. '
  'value: SQL for its text. kind: what it is in JSON. is_fixed: whether no setting changes its text.';

create function audit_log_private.logging_statement(event text, made jsonb, of_one boolean default false) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $fn$
declare
  action constant text := format('%L', made ->> ('on_' || event));
  data constant text := format('jsonb_object(%L, array[%s]::text[])', made ->> 'names', made ->> 'data');
  -- What follows the name of a transition table.
  rows_end constant text := case when made ? 'computed' then
    format(' as t offset 0) as t where audit_log_private.require_computed(t.computed, %L))', made ->> 'fields')
    else ' as t) as t)'
  end;
  -- Postgres puts what a row was and what it is at the same place of the two tables. They differ in size only where a
  -- trigger swallows a row on its way to another partition. Then nothing is a pair.
  numbered constant text := format(
    '(select t.*, coalesce(%s, %L) as owner, array[%s]::text[] as values, %s from (select {columns} from ',
    made ->> 'organization', '', made ->> 'values',
    case when of_one then '1 as n, 1 as size' else 'row_number() over () as n, count(*) over () as size' end
  );
begin
  -- ensure_organization is only asked for one that the log does not know yet, and refuses what is null. What needs no
  -- more than 600 bytes in binary form needs no more than 4096 as text.
  return format(
    $sql$
      insert into audit_log.audit_entries (organization_id, action, user_email, agent_name, data)
      select
        e.organization_id, e.action, e.user_email, e.agent_name,
        case when pg_column_size(e.data) <= 600 then e.data else audit_log_private.fitted(e.data) end
      from (
        select
          coalesce(o.id, audit_log_private.ensure_organization(coalesce(%1$s, ''))) as organization_id, %2$s as action,
          coalesce(q.email, %3$s, q.fallback_email) as user_email,
          audit_log_private.name_or_unnamed(%4$s) as agent_name, %5$s || q.data as data
        from audit_log_private.request_context() as q
        cross join %6$s as r left join audit_log.organizations o on o.platform_id = %1$s
        -- Computes each value once.
        offset 0
      ) as e%7$s$sql$,
    made ->> 'organization',
    case when made ? 'computed' then format('coalesce(computed ->> ''action'', %s)', action) else action end,
    -- A row does not say who deletes it.
    case when event <> 'delete' and made ? 'person' then format(
      'audit_log_private.valid_email(%1$s), (select audit_log_private.valid_email(u.email) from auth.users u '
      'where u.id = substring(%1$s from ''^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$'')::uuid)', made ->> 'person'
    ) else 'null' end,
    coalesce(made ->> 'agent_name', 'null'),
    case when event = 'update' then format(
      'audit_log_private.with_changes(%s, %L, %L, former, present)', data, made ->> 'changed', made ->> 'kinds'
    ) else data end,
    case when event <> 'update' then '(select t.* from (select {columns} from changed_rows' || rows_end else format(
      -- An update that moves a row to another organization is two entries: what was there, and what is there. So no
      -- organization gets values of another. A key that comes or goes with its row has not changed. A full join is
      -- never a nested loop, however few rows it was planned for.
      '(select coalesce(o.values, n.values[:%1$s]) as former, coalesce(n.values, o.values[:%1$s]) as present, %2$s '
      'from %3$s as o %4$s join %5$s as n on %7$s '
      'where n.n is null or o.n is null or %6$s)',
      made ->> 'keys', (
        select string_agg(format('case when n.n is null then o.%1$s else n.%1$s end as %1$s', c), ', ')
        from jsonb_array_elements_text(made -> 'outputs') as c
      ),
      numbered || 'former_rows' || rows_end, case when of_one then 'inner' else 'full' end,
      numbered || 'changed_rows' || rows_end,
      case when of_one or made ->> 'changes' = '' then 'true' else 'n.values <> o.values' end,
      case when of_one then 'true' else 'n.n = o.n and n.size = o.size and n.owner = o.owner' end
    ) end,
    -- Of one row, comparing values here would build them twice.
    case when of_one and made ->> 'changes' <> '' then ' where e.data ? ''changes''' end
  );
end $fn$;
comment on function audit_log_private.logging_statement is
  'The statement that writes the entries of rows. of_one: for an update of one row, which stays in its organization.';

create function audit_log_private.selected_by(name text) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp set quote_all_identifiers = off as $$
declare
  body constant text := pg_get_function_sqlbody(to_regprocedure(format('audit_log_private.%I(jsonb)', name)));
begin
  return replace(
    substring(body from E'SELECT (.*)\\n +FROM '), '($1) AS computed', '(to_jsonb(t.*)) AS computed'
  );
end $$;
comment on function audit_log_private.selected_by is
  'What logged_…(jsonb) selects, by the names that columns have now. Immutable, so that Postgres asks once a plan.';

create function audit_log_private.make_trigger_function(name name, made jsonb) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $fn$
declare
  selected constant text := audit_log_private.selected_by(name);
  statements constant text[] := array(
    select audit_log_private.logging_statement(e.event, made)
    from unnest('{insert,delete,update}'::text[]) with ordinality as e (event, n) order by e.n
  );
  of_row constant text := '(select %s from (select {columns} from %s as t) as t)';
  -- Nearly always, there is one row, which stays in its organization, and often nothing changes that is logged.
  is_changed constant text := case when made ? 'computed' then 'null' else format(
    'case when not exists (select from former_rows offset 1) and %s = %s then %s end',
    format(of_row, made ->> 'organization', 'former_rows'), format(of_row, made ->> 'organization', 'changed_rows'),
    case when made ->> 'changes' = '' then 'true' else concat(
      format(of_row, made ->> 'compared', 'former_rows'), ' *<> ', format(of_row, made ->> 'compared', 'changed_rows')
    ) end
  ) end;
begin
  execute format(
    'create or replace function audit_log_private.%I() returns trigger language plpgsql security definer '
    'set search_path = pg_catalog, pg_temp set quote_all_identifiers = off %s as %L',
    name,
    -- All settings on which a value as text depends, or an update could be no change. They cost an insert some percent.
    case when made -> 'is_fixed' = 'false' then $sql$
      set timezone = 'UTC' set datestyle = 'ISO, MDY' set intervalstyle = postgres set extra_float_digits = 1
      set bytea_output = hex set xmlbinary = base64 set lc_monetary = 'C' set lc_numeric = 'C' set lc_time = 'C'$sql$
    end,
    replace(format(
      $body$
#variable_conflict use_column
declare
  is_changed boolean;
begin
  -- Postgres plans this anew, and so asks selected_by() again, once the table has changed: the plan depends on it.
  perform from (select) as one_row left join changed_rows as t on false
  where audit_log_private.selected_by(%1$L) <> %2$L;
  if found then
    -- A column has another name now, and another column may have its old name.
    execute replace(
      (%3$L::text[])[array_position('{INSERT,DELETE,UPDATE}', tg_op)],
      '{selected}', audit_log_private.selected_by(%1$L)
    );
  elsif tg_op = 'INSERT' then%4$s;
  elsif tg_op = 'DELETE' then%5$s;
  else
    is_changed := %7$s;
    if is_changed then%8$s;
    elsif is_changed is null then%6$s;
    end if;
  end if;
  return null;%9$s
end $body$,
      name, selected, replace(statements::text, '{columns}', '{selected}'), statements[1], statements[2], statements[3],
      is_changed, audit_log_private.logging_statement('update', made, of_one => true),
      case when made ->> 'on_failure' = 'carry_on' then $sql$
exception
  -- Whoever chose such an isolation repeats the transaction, and with it the entries.
  when serialization_failure then raise;
  when others then
    perform audit_log_private.note_failure(
      format('%I.%I', tg_table_schema, tg_table_name), sqlstate || ': ' || sqlerrm
    );
    return null;$sql$ end
    ), '{columns}', selected)
  );
end $fn$;
comment on function audit_log_private.make_trigger_function is 'Makes the trigger function of a table.';

create function audit_log_private.follow_renames() returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  perform audit_log_private.make_trigger_function(p.proname, l.arguments)
  from audit_log_private.logged_tables() l
  join pg_proc p on p.oid = l.trigger_function and pg_has_role(p.proowner, 'usage')
  where position(quote_literal(audit_log_private.selected_by(p.proname)) in p.prosrc) = 0;
end $$;
comment on function audit_log_private.follow_renames is 'Makes the trigger functions of renamed columns anew.';

create function audit_log_private.unlog_table(logged regclass) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp set client_min_messages = warning as $$
declare
  name name;
begin
  for name in
    select p.proname from audit_log_private.logged_tables() l join pg_proc p on p.oid = l.trigger_function
    where l.logged = unlog_table.logged
  loop
    execute format('drop function audit_log_private.%I() cascade', name);
    execute format('drop function if exists audit_log_private.%I(jsonb)', name);
  end loop;
end $$;
comment on function audit_log_private.unlog_table is 'Ends what log_table began, if it did. Entries stay.';

create function audit_log_private.make_triggers(logged regclass, made jsonb) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp set quote_all_identifiers = off as $fn$
declare
  table_name constant name := (select c.relname from pg_class c where c.oid = logged);
  name name := 'logged_' || table_name;
  event record;
begin
  if to_regprocedure(format('audit_log_private.%I()', name)) is not null then
    -- Of another table with such a name.
    name := 'logged_' || left(table_name, 12) || '_' || logged::oid;
  end if;
  execute format(
    'create function audit_log_private.%I(jsonb) returns void language sql set search_path = pg_catalog, pg_temp '
    'begin atomic select %s from %s as t; end',
    name, made ->> 'columns', logged
  );
  perform audit_log_private.make_trigger_function(name, made);
  execute format('comment on function audit_log_private.%I() is %L', name, made);
  execute format(
    'revoke all on function audit_log_private.%1$I(), audit_log_private.%1$I(jsonb) '
    'from public, anon, authenticated, service_role', name
  );
  for event in
    select e.name, e.tables from (values
      ('insert', 'new table as changed_rows'), ('delete', 'old table as changed_rows'),
      ('update', 'old table as former_rows new table as changed_rows')
    ) as e (name, tables)
    where made ? ('on_' || e.name)
  loop
    execute format(
      'create trigger audit_log_on_%1$s after %1$s on %2$s referencing %3$s for each statement '
      'when (%4$L::regprocedure is not null) execute function audit_log_private.%5$I()',
      event.name, logged, event.tables, format('audit_log_private.%I(jsonb)', name), name
    );
  end loop;
end $fn$;
comment on function audit_log_private.make_triggers is 'Makes the triggers of a table, and their functions.';

create function audit_log_private.with_generated(logged regclass, given jsonb) returns jsonb
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return (
    select given - '{organization,agent_name,person,data}'::text[] || jsonb_strip_nulls(jsonb_build_object(
      'columns', concat_ws(', ', string_agg(n.selected, ', '), (given ->> 'computed') || '($1) as computed'),
      'fields', coalesce(array_agg(distinct n.field) filter (where n.field is not null), '{}')::text,
      'repeats', count(*) > count(distinct (n.role, case when n.role in ('key', 'data', 'changes') then n.name end)),
      'names', coalesce(array_agg(n.name order by n.n) filter (where n.role = 'data'), '{}')::text,
      'changed', array_agg(n.name order by n.role desc, n.n) filter (where n.role in ('key', 'changes'))::text,
      'kinds', array_agg(n.kind order by n.role desc, n.n) filter (where n.role in ('key', 'changes'))::text,
      'keys', count(*) filter (where n.role = 'key'),
      'is_fixed', bool_and(n.is_fixed) and not given ? 'computed',
      'compared', format('row(%s)', string_agg(n.role || n.n, ', ') filter (where n.role in ('key', 'changes'))),
      'outputs', array_agg(n.role || n.n) filter (where n.field is null and n.role not in ('key', 'changes'))
        || case when given ? 'computed' then array['computed'] end,
      'organization', min(n.value) filter (where n.role = 'organization'),
      'agent_name', min(n.value) filter (where n.role = 'agent_name'),
      'person', min(n.value) filter (where n.role = 'person'),
      'data', string_agg(format('coalesce(audit_log_private.cut(%s, 100), %L)', n.value, ''), ', ' order by n.n)
        filter (where n.role = 'data'),
      'values', string_agg(n.value, ', ' order by n.role desc, n.n) filter (where n.role in ('key', 'changes'))
    ))
    from audit_log_private.named_values(logged, given) as n
  );
end $$;
comment on function audit_log_private.with_generated is 'The arguments of log_table, with the SQL made from them.';

create function audit_log_private.log_table(
  logged regclass,
  -- refuse: a statement fails if its entries cannot be written. carry_on: it continues, and health() has the failure.
  on_failure text,
  -- Names of columns, or of fields that computed returns.
  organization text default null,
  agent_name text default null,
  on_insert text default null,
  on_update text default null,
  on_delete text default null,
  -- Who it was where nobody is signed in: an account's id, or an address. Not who deletes a row: no column knows.
  person text default null,
  -- Lists of names. An update that changes neither the primary key nor one of `changes` is not logged.
  data text default '',
  changes text default '',
  -- A function of the platform from a row as jsonb to more fields as jsonb, or to null: then the row is not logged.
  computed text default null
) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp set quote_all_identifiers = off as $fn$
declare
  relation constant pg_class := (select c from pg_class c where c.oid = logged);
  actions constant jsonb := jsonb_strip_nulls(
    jsonb_build_object('on_insert', on_insert, 'on_update', on_update, 'on_delete', on_delete)
  );
  made constant jsonb := audit_log_private.with_generated(logged, actions || jsonb_strip_nulls(jsonb_build_object(
    'logged', logged, 'on_failure', on_failure, 'organization', organization, 'agent_name', agent_name,
    'person', person, 'data', data, 'computed', computed, 'changes', case when on_update is not null then changes end
  )));
  names constant text[] := (made ->> 'names')::text[];
  logged_names constant text[] := names || (made ->> 'changed')::text[];
  problem constant text := case
    when relation.relkind not in ('r', 'p')
      or relation.relnamespace in ('audit_log'::regnamespace, 'audit_log_private'::regnamespace)
      then 'not a table of the platform'
    when (on_failure in ('refuse', 'carry_on')) is not true then 'on_failure is refuse or carry_on'
    when not made ? 'organization'
      then 'say to which organization a row belongs: organization => ''organization_id''. If rows belong to none, '
        'docs/logging.md, "Tables without an organization", says what to do'
    when made ->> 'repeats' = 'true'
      then 'organization, agent_name and person name one column each, and data and changes no name twice'
    when actions = '{}' then 'give on_insert, on_update or on_delete'
    when computed is null and made ->> 'fields' <> '{}'
      then format('the table does not store %s', array_to_string((made ->> 'fields')::text[], ', '))
    when computed is not null and not exists (
      select from pg_proc p where p.oid = to_regprocedure(computed || '(jsonb)')
        and p.prorettype = 'jsonb'::regtype and not p.proretset
    ) then format('there is no function %s(jsonb) that returns jsonb', computed)
    when exists (select from unnest(names) as n where n in ('caller', 'changes') or starts_with(n, 'audit_log_'))
      then 'the names caller and changes in data are reserved, and those that begin with audit_log_'
    -- Leaves each value some bytes, and the caller 1,500.
    when octet_length(to_jsonb(logged_names)::text) + 24 * cardinality(logged_names) > 2500
      then 'data and changes have too many columns for the 4096 bytes of an entry'
    else (select min(audit_log_private.required_but_missing(a.value, names)) from jsonb_each_text(actions) as a)
  end;
begin
  if problem is not null then
    raise exception 'log_table(%): %', logged, problem using errcode = 'invalid_parameter_value';
  end if;
  perform audit_log_private.unlog_table(logged);
  perform audit_log_private.make_triggers(logged, made);
end $fn$;
comment on function audit_log_private.log_table is
  'Logs a table from now on (docs/logging.md). A repeat replaces what the first call said. Raises 22023.';
