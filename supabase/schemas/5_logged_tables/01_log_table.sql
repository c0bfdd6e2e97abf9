-- log_table logs a table of the platform (docs/logging.md). For a table `documents`, it makes triggers, and:
--
--  - logged_documents(), which the triggers call. Its comment has what was made of the arguments.
--  - logged_documents(jsonb), which is never called. It selects what log_table names, in SQL that Postgres has parsed.
--    So Postgres prints it with the names that columns have now, and refuses to drop them, to change their types, and
--    to drop `computed`. Each trigger's condition names it, so `drop … cascade` drops the triggers: no write breaks.

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
language plpgsql stable strict set search_path = pg_catalog, pg_temp as $$
declare
  required constant text[] := (select a.required from audit_log.actions a where a.code = action);
begin
  return case
    when required is null then format('the action %L is not in the table audit_log.actions', action)
    when not required <@ names then format('the action %L requires %s in data', action, array_to_string(required, ', '))
  end;
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
          and e.created_at > now() - interval '1 day' and e.data #>> '{caller,kind}' = 'secret_key'
          and (e.data #> '{caller,on_behalf_of}' ?| '{id,email}') is not true
        -- One look into the index of persons for each organization.
        offset 0
      ) as e
      group by e.action
    )
    select coalesce(l.logged::text, l.arguments ->> 'logged'), p.problem
    from audit_log_private.logged_tables() l
    cross join (values ('on_insert', 4), ('on_delete', 8), ('on_update', 16)) as e (name, bit)
    left join pg_trigger t on t.tgfoid = l.trigger_function and t.tgparentid = 0 and t.tgtype & e.bit > 0
    left join of_nobody n on n.action = l.arguments ->> e.name
    cross join lateral (
      values
        (case
          when l.logged is null
            then format('the table is gone. Drop %s, or log the table that replaces it', l.trigger_function)
          when t.oid is null then format('the trigger of %s is gone: call log_table again', e.name)
          when t.tgenabled not in ('O', 'A') then format('the trigger of %s is disabled', e.name)
        end),
        (audit_log_private.required_but_missing(l.arguments ->> e.name, (l.arguments ->> 'names')::text[])),
        ('the secret key wrote ' || n.entries || ' entries with ' || n.action || ' in the last 24 hours and named '
          'nobody: send the header X-Audit-Person')
    ) as p (problem)
    where l.arguments ? e.name and p.problem is not null
    union
    -- Partitions, and tables that inherit.
    select l.logged::text, format('writes that name its child %s are not logged', i.inhrelid::regclass)
    from pg_inherits i join audit_log_private.logged_tables() l on l.logged = i.inhparent
    where i.inhrelid not in (select o.logged from audit_log_private.logged_tables() o where o.logged is not null);
end $$;
comment on function audit_log_private.logging_problems is 'Why entries are missing, or will be, or lack their person.';

create function audit_log_private.require_computed(fields text[], computed jsonb) returns jsonb
-- Volatile, so that Postgres calls it once for each row.
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  if jsonb_typeof(computed) <> 'object' or not computed ?& fields then
    raise exception 'the function that log_table calls (computed) returned no object with the fields %', fields
      using errcode = 'invalid_parameter_value';
  end if;
  return computed;
end $$;
comment on function audit_log_private.require_computed is 'computed. Raises 22023 if it is not what it must be.';

create function audit_log_private.with_changes(
  data jsonb, names text[], kinds text[], former text[], present text[]
) returns jsonb
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
  changes jsonb := jsonb '{}';
begin
  for n in 1 .. coalesce(cardinality(names), 0) loop
    if former[n] is distinct from present[n] then
      changes := changes || jsonb_build_object(names[n], jsonb_build_array(
        audit_log_private.json_value(former[n], kinds[n]), audit_log_private.json_value(present[n], kinds[n])
      ));
    end if;
  end loop;
  return case when changes = '{}' then data else data || jsonb_build_object('changes', changes) end;
end $$;
comment on function audit_log_private.with_changes is 'data with changes: {name: [old, new]} of values that differ.';

create function audit_log_private.with_generated(logged regclass, given jsonb) returns jsonb
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  -- What is within quotes is part of a name.
  outside_quotes constant text := '(?=(?:[^"]*"[^"]*")*[^"]*$)';
begin
  return (
    select given - '{organization,agent_name,person,data}'::text[] || jsonb_strip_nulls(jsonb_build_object(
      'columns', string_agg('t.' || quote_ident(a.attname) || ' as ' || v.alias || ', ', ''),
      'fields', coalesce(array_agg(distinct v.field) filter (where a.attname is null), '{}')::text,
      'repeats', count(*) > count(distinct (l.role, case when l.role in ('key', 'data', 'changes') then v.name end)),
      'names', coalesce(array_agg(v.name order by i.n) filter (where l.role = 'data'), '{}')::text,
      'changed', array_agg(v.name order by l.role desc, i.n) filter (where v.is_compared)::text,
      'kinds', array_agg(s.kind order by l.role desc, i.n) filter (where v.is_compared)::text,
      'values', string_agg(s.value, ', ' order by l.role desc, i.n) filter (where v.is_compared),
      'compared', format('row(%s)', string_agg(v.alias, ', ') filter (where v.is_compared)),
      'keys', count(*) filter (where l.role = 'key'),
      'is_fixed', bool_and(s.is_fixed) and not given ? 'computed',
      'data', string_agg(format('coalesce(audit_log_private.cut(%s, 100), %L)', s.value, ''), ', ' order by i.n)
        filter (where l.role = 'data'),
      -- Of an updated row, what it is; or what it was, if it is gone.
      'outputs', string_agg(format('case when n.n is null then o.%1$s else n.%1$s end as %1$s, ', v.alias), '')
        filter (where a.attname is not null and not v.is_compared)
    )) || coalesce(jsonb_object_agg(l.role, s.value) filter (where l.role not in ('data', 'changes', 'key')), '{}')
    from jsonb_each_text(given || jsonb_build_object('key', (
      select string_agg(pg_get_indexdef(i.indexrelid, n, false), ', ')
      from pg_index i cross join generate_series(1, i.indnkeyatts) as n
      where i.indrelid = logged and i.indisprimary and given ? 'changes'
    ))) as l (role, list)
    cross join regexp_split_to_table(nullif(btrim(l.list), ''), ',' || outside_quotes) with ordinality as i (item, n)
    cross join regexp_match(btrim(i.item), E'^(.*?)(?:\\s+as\\s+' || outside_quotes || '(.*))?$', 'i') as w (words)
    cross join lateral (
      select
        l.role || i.n as alias, l.role in ('key', 'changes') as is_compared,
        array_to_string(parse_ident(w.words[1]), '.') as field,
        array_to_string(parse_ident(coalesce(w.words[2], w.words[1])), '.') as name
    ) as v
    -- A name that is no column is a field of computed. Triggers do not see the value of virtual generated columns.
    left join pg_attribute a
      on a.attrelid = logged and a.attname = v.field and a.attnum > 0 and a.attgenerated <> 'v'
    left join pg_type t on t.oid = a.atttypid
    cross join lateral (
      select
        -- SQL for its text, in the database's collation: two could not be compared, and one may take a for A.
        case
          when a.attname is not null then v.alias || '::text collate pg_catalog."default"'
          when l.role = 'changes' then format('nullif(computed -> %L, ''null'')::text', v.field)
          else format('(computed ->> %L)', v.field)
        end as value,
        -- By the function that writes values of a type as text: a domain has that of the type under it.
        case
          when a.attname is null or t.typoutput = 'boolout'::regproc then 'json'
          when t.typoutput::text ~ '^(int[248]|float[48]|numeric_)out$' then 'number'
          else 'string'
        end as kind,
        -- Whether no setting changes its text.
        t.typoutput::text ~ '^(bool|bpchar|enum_|int[248]|jsonb?_|name|numeric_|text|uuid_|varchar)out$' as is_fixed
    ) as s
    where l.role in ('organization', 'agent_name', 'person', 'data', 'changes', 'key')
  );
end $$;
comment on function audit_log_private.with_generated is 'The arguments of log_table, with the SQL made from them.';

create function audit_log_private.logging_statement(event text, made jsonb, of_one boolean default false) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $fn$
declare
  data constant text := format('jsonb_object(%L, array[%s]::text[])', made ->> 'names', made ->> 'data');
  compared constant text := format('array[%s]::text[]', made ->> 'values');
  rows constant text := '(select t.*%s from (select {columns}%s from %s as t) as t where t.computed is not null)';
  -- Postgres puts what a row was and what it is at the same place of the two tables. They differ in size only where a
  -- trigger swallows a row on its way to another partition. Then nothing is a pair. What is not logged counts, too.
  numbers constant text := ', row_number() over () as n, count(*) over () as size';
  owned constant text := format(', %s as compared, coalesce(%s, '''') as owner', compared, made ->> 'organization');
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
          coalesce(o.id, audit_log_private.ensure_organization(coalesce(%1$s, ''))) as organization_id,
          coalesce(computed ->> 'action', %2$L) as action,
          coalesce(q.email, %4$s, q.fallback_email) as user_email,
          audit_log_private.name_or_unnamed(%3$s) as agent_name, %5$s || q.data as data
        from audit_log_private.request_context() as q
        cross join %6$s as r left join audit_log.organizations o on o.platform_id = %1$s
        -- Computes each value once.
        offset 0
      ) as e%7$s$sql$,
    made ->> 'organization', made ->> ('on_' || event), coalesce(made ->> 'agent_name', 'null'),
    -- A row does not say who deletes it.
    case when event <> 'delete' and made ? 'person' then format(
      'audit_log_private.valid_email(%1$s), (select audit_log_private.valid_email(u.email) from auth.users u '
      'where u.id = substring(%1$s from ''^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$'')::uuid)', made ->> 'person'
    ) else 'null' end,
    case when event = 'update' then format(
      'audit_log_private.with_changes(%s, %L, %L, former, present)', data, made ->> 'changed', made ->> 'kinds'
    ) else data end,
    case
      when event <> 'update' then format(rows, '', '', 'changed_rows')
      when of_one then format(rows, format(
        ', %1$s as present, (select %1$s from (select {columns} from former_rows as t) as t) as former', compared
      ), '', 'changed_rows')
      -- An update that moves a row to another organization is two entries: what was there, and what is there. So no
      -- organization gets values of another. A key that comes or goes with its row has not changed. A full join is
      -- never a nested loop, however few rows it was planned for.
      else format(
        '(select %1$s case when n.n is null then o.computed else n.computed end as computed, '
        'coalesce(o.compared, n.compared[:%2$s]) as former, coalesce(n.compared, o.compared[:%2$s]) as present '
        'from %3$s as o full join %4$s as n on n.n = o.n and n.size = o.size and n.owner = o.owner '
        'where n.n is null or o.n is null or %5$s)',
        made ->> 'outputs', made ->> 'keys', format(rows, owned, numbers, 'former_rows'),
        format(rows, owned, numbers, 'changed_rows'),
        case made ->> 'changes' when '' then 'true' else 'n.compared <> o.compared' end
      )
    end,
    -- Of one row, comparing values here would build them twice.
    case when of_one and made ->> 'changes' <> '' then ' where e.data ? ''changes''' end
  );
end $fn$;
comment on function audit_log_private.logging_statement is 'SQL that writes entries. of_one: of a single updated row.';

create function audit_log_private.selected_by(name text) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp set quote_all_identifiers = off as $$
declare
  body constant text := pg_get_function_sqlbody(to_regprocedure(format('audit_log_private.%I(jsonb)', name)));
begin
  return replace(substring(body from E'SELECT (.*)\\n +FROM '), '($1)) AS computed', '(to_jsonb(t.*))) AS computed');
end $$;
comment on function audit_log_private.selected_by is
  'What logged_…(jsonb) selects, by the names that columns have now. Immutable: a plan asks of a constant once.';

create function audit_log_private.make_trigger_function(name name, made jsonb) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $fn$
declare
  selected constant text := audit_log_private.selected_by(name);
  statements constant jsonb := (
    select jsonb_object_agg(upper(e), audit_log_private.logging_statement(e, made))
    from unnest('{insert,update,delete}'::text[]) as e
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
declare
  is_changed boolean;
begin
  -- Postgres plans this anew, and so asks selected_by() again, once the table has changed: the plan depends on it.
  -- No plan depends on the name of a function (computed). So concat(), which is stable, has it asked each time.
  perform from (select) as one_row left join changed_rows as t on false
  where audit_log_private.selected_by(%10$s) <> %2$L;
  if found then
    -- A column has another name now, and another column may have its old name.
    execute replace(%3$L::jsonb ->> tg_op, '{selected}', audit_log_private.selected_by(concat(%1$L)));
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
      name, selected, replace(statements::text, '{columns}', '{selected}'), statements ->> 'INSERT',
      statements ->> 'DELETE', statements ->> 'UPDATE', is_changed,
      audit_log_private.logging_statement('update', made, of_one => true),
      case when made ->> 'on_failure' = 'carry_on' then $sql$
exception
  -- Whoever chose such an isolation repeats the transaction, and with it the entries.
  when serialization_failure then raise;
  when others then
    perform audit_log_private.note_failure(
      format('%I.%I', tg_table_schema, tg_table_name), sqlstate || ': ' || sqlerrm
    );
    return null;$sql$ end, format(case when made ? 'computed' then 'concat(%L)' else '%L' end, name)
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
begin
  execute coalesce((
    select string_agg(format(
      'drop function audit_log_private.%1$I() cascade; drop function if exists audit_log_private.%1$I(jsonb)', p.proname
    ), ';')
    from audit_log_private.logged_tables() l join pg_proc p on p.oid = l.trigger_function
    where l.logged = unlog_table.logged
  ), '');
end $$;
comment on function audit_log_private.unlog_table is 'Ends what log_table began, if it did. Entries stay.';

create function audit_log_private.make_triggers(logged regclass, made jsonb) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp set quote_all_identifiers = off as $fn$
declare
  name name := 'logged_' || (select c.relname from pg_class c where c.oid = logged);
begin
  if to_regprocedure(format('audit_log_private.%I()', name)) is not null then
    -- Of another table with such a name.
    name := left(name, 19) || '_' || logged::oid;
  end if;
  execute format(
    'create function audit_log_private.%I(jsonb) returns void language sql set search_path = pg_catalog, pg_temp '
    'begin atomic select %s %s as computed from %s as t; end', name, made ->> 'columns',
    case when made ? 'computed'
      then format('audit_log_private.require_computed(%L, %s($1))', made ->> 'fields', made ->> 'computed')
      else 'jsonb ''{}''' end,
    logged
  );
  perform audit_log_private.make_trigger_function(name, made);
  execute format(
    'comment on function audit_log_private.%1$I() is %2$L; '
    'revoke all on function audit_log_private.%1$I(), audit_log_private.%1$I(jsonb) '
    'from public, anon, authenticated, service_role', name, made
  );
  execute (
    select string_agg(format(
      'create trigger audit_log_on_%1$s after %1$s on %2$s referencing %3$s for each statement '
      'when (%4$L::regprocedure is not null) execute function audit_log_private.%5$I()',
      e.event, logged, e.tables, format('audit_log_private.%I(jsonb)', name), name
    ), ';')
    from (values
      ('insert', 'new table as changed_rows'), ('delete', 'old table as changed_rows'),
      ('update', 'old table as former_rows new table as changed_rows')
    ) as e (event, tables)
    where made ? ('on_' || e.event)
  );
end $fn$;
comment on function audit_log_private.make_triggers is 'Makes the triggers of a table, and their functions.';

create function audit_log_private.log_table(
  logged regclass,
  on_failure text,
  organization text default null,
  agent_name text default null,
  on_insert text default null,
  on_update text default null,
  on_delete text default null,
  person text default null,
  data text default '',
  changes text default '',
  computed text default null
) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp set quote_all_identifiers = off as $fn$
declare
  made constant jsonb := audit_log_private.with_generated(logged, jsonb_strip_nulls(jsonb_build_object(
    'logged', logged, 'on_failure', on_failure, 'on_insert', on_insert, 'on_update', on_update, 'on_delete', on_delete,
    'organization', organization, 'agent_name', agent_name, 'person', person, 'data', data, 'computed', computed,
    'changes', case when on_update is not null then changes end
  )));
  names constant text[] := (made ->> 'names')::text[];
  logged_names constant text[] := names || (made ->> 'changed')::text[];
  problem constant text := case
    when logged::text ~ '^audit_log(_private)?[.]' then 'not a table of the platform'
    when (on_failure in ('refuse', 'carry_on')) is not true then 'on_failure is refuse or carry_on'
    when not made ? 'organization'
      then 'say to which organization a row belongs (organization). If it has none, see docs/logging.md'
    when made ->> 'repeats' = 'true'
      then 'organization, agent_name and person name one column each, and data and changes no name twice'
    when coalesce(on_insert, on_update, on_delete) is null then 'give on_insert, on_update or on_delete'
    when computed is null and made ->> 'fields' <> '{}'
      then format('the table does not store %s', array_to_string((made ->> 'fields')::text[], ', '))
    when computed is not null
      and pg_get_function_result(to_regprocedure(computed || '(jsonb)')) is distinct from 'jsonb'
      then format('there is no function %s(jsonb) that returns jsonb', computed)
    when exists (select from unnest(names) as n where n in ('caller', 'changes') or starts_with(n, 'audit_log_'))
      then 'the names caller and changes in data are reserved, and those that begin with audit_log_'
    -- Leaves each value some bytes, and the caller 1,500.
    when octet_length(to_jsonb(logged_names)::text) + 24 * cardinality(logged_names) > 2500
      then 'data and changes have too many columns for the 4096 bytes of an entry'
    else (
      select min(audit_log_private.required_but_missing(a, names))
      from unnest(array[on_insert, on_update, on_delete]) as a
    )
  end;
begin
  if problem is not null then
    raise exception 'log_table(%): %', logged, problem using errcode = 'invalid_parameter_value';
  end if;
  perform audit_log_private.unlog_table(logged);
  perform audit_log_private.make_triggers(logged, made);
end $fn$;
comment on function audit_log_private.log_table is
  'Logs a table from now on: docs/logging.md has the arguments. A repeat replaces the first call. Raises 22023.';
