-- log_table logs a table of the platform, with one call in one of its migrations (docs/adopting.md). It makes a view,
-- two functions and up to three triggers:
--
--  - logged_documents, a view of the columns that log_table names, follows when a column or the table is renamed, and
--    Postgres refuses to drop these columns or to change their types.
--  - logged_documents(logged_documents), in SQL that Postgres has parsed, says what a row of the view means to the log.
--    It does not take a row of the table: Postgres 17.12 and 15.20 then refuse to add a column with a default to it.
--    Each trigger's condition names this function. So `drop column … cascade` drops the view, the function and the
--    triggers, and no write breaks.
--  - logged_documents() is the trigger function, which writes the entries of a statement. Its text has the names of
--    columns. Once the view tells that one has changed, each write makes its statements anew, which is slower, until
--    the upkeep has made the function anew. Its comment has the arguments of log_table. Because they are in a comment
--    and in no table, dumps and restores need no care.
--
-- A later version leaves these as they are. log_table makes them anew when it is called again.

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

create function audit_log_private.required_but_missing(action text, field_names text[]) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  required text[];
begin
  select a.required into required from audit_log.actions a where a.code = action;
  if not found then
    return format('the action %s is not in the table audit_log.actions', quote_literal(action));
  end if;
  return (
    select format(
      'the action %s requires %s, which data does not name', quote_literal(action), string_agg(r.name, ', ')
    )
    from unnest(required) as r (name) where r.name <> all (field_names) having count(*) > 0
  );
end $$;
comment on function audit_log_private.required_but_missing is
  'Why entries with this action and these fields of data would be refused; null if they would not.';

create function audit_log_private.pairing_columns(logged regclass) returns text[]
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return (
    select array_agg(a.attname::text order by array_position(i.indkey::smallint[], a.attnum)) from pg_index i
    join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any ((i.indkey::smallint[])[0:i.indnkeyatts - 1])
    where i.indrelid = logged and i.indisprimary and i.indimmediate
      -- Tables that inherit from it may have the same keys again.
      and not exists (
        select from pg_inherits h join pg_class c on c.oid = h.inhparent
        where c.oid = logged and c.relkind = 'r'
      )
  );
end $$;
comment on function audit_log_private.pairing_columns is
  'The columns of a table''s primary key; null if it cannot pair old and new rows: deferrable, or inherited from.';

create table audit_log_private.logging_failures (
  logged text not null,
  writer_pid integer not null,
  failures bigint not null,
  last_at timestamptz not null,
  last_error text not null,
  primary key (logged, writer_pid)
);

comment on table audit_log_private.logging_failures is
  'How often a statement was made without its entries (carry_on). Each backend counts in rows of its own.';

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
      select audit_log_private.required_but_missing(
        a.value, array(select jsonb_array_elements_text(l.arguments -> 'field_names'))
      )
      from jsonb_each_text(l.arguments) as a (name, value) where a.name in ('on_insert', 'on_update', 'on_delete')
      union all
      select 'the primary key that pairs old and new rows is gone: call log_table again'
      from pg_trigger t
      where t.tgfoid = l.trigger_function and t.tgtype & 17 = 16 and audit_log_private.pairing_columns(l.logged) is null
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
  'Why actions are missing from the log, or will be, because tables or actions were changed after log_table; and '
  'which tables the secret key wrote without saying for whom.';

create function audit_log_private.json_kind(type regtype) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  -- By the function that writes its values: a domain has that of the type under it.
  return (
    select case
      when t.typoutput = 'boolout'::regproc then 'boolean'
      when t.typoutput in (
        'int2out'::regproc, 'int4out'::regproc, 'int8out'::regproc, 'float4out'::regproc, 'float8out'::regproc,
        'numeric_out'::regproc
      ) then 'number'
      else 'string'
    end
    from pg_type t where t.oid = type
  );
end $$;
comment on function audit_log_private.json_kind is 'What values of a type are in changes: boolean, number or string.';

create function audit_log_private.json_value(value text, kind text) returns jsonb
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  if kind = 'boolean' then
    return to_jsonb(value::boolean);
  -- JSON has no negative zero, and writes 1e+300 with all its zeros.
  elsif kind = 'number' and value <> '-0' and char_length(value::numeric::text) <= 100 then
    return to_jsonb(value::numeric);
  end if;
  return to_jsonb(audit_log_private.cut(value, 100));
end $$;
comment on function audit_log_private.json_value is
  'A value as changes have it: a boolean, a number, or a string of at most 100 characters; null for null.';

create function audit_log_private.with_changes(
  data jsonb, change_names text[], kinds text[], former text[], present text[]
) returns jsonb
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
  changes jsonb := jsonb '{}';
begin
  for n in 1 .. cardinality(change_names) loop
    if former[n] is distinct from present[n] then
      changes := changes || jsonb_build_object(
        change_names[n], jsonb_build_array(
          audit_log_private.json_value(former[n], kinds[n]), audit_log_private.json_value(present[n], kinds[n])
        )
      );
    end if;
  end loop;
  return case when changes = '{}' then data else data || jsonb_build_object('changes', changes) end;
end $$;
comment on function audit_log_private.with_changes is
  'data with the field changes: {name: [old, new]} of all values that differ. kinds: what json_kind says of each.';

create function audit_log_private.selected_columns(
  logged regclass, list text,
  out names text[], out types regtype[], out used text[], out is_fixed boolean
)
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  if list = '' then
    select array[]::text[], array[]::regtype[], array[]::text[], true into names, types, used, is_fixed;
    return;
  end if;
  -- A view tells, without a parser of ours.
  execute format('create temp view logged_columns as select %s from %s', list, logged);
  select array_agg(a.attname order by a.attnum), array_agg(a.atttypid::regtype order by a.attnum) into names, types
  from pg_attribute a where a.attrelid = to_regclass('pg_temp.logged_columns');
  select coalesce(array_agg(distinct a.attname), '{}') into used
  from pg_rewrite r
  join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid and d.refobjid = logged
  join pg_attribute a on a.attrelid = logged and a.attnum = d.refobjsubid and a.attnum > 0
  where r.ev_class = to_regclass('pg_temp.logged_columns');
  -- The row that the row function builds has only the columns that are used.
  if exists (
    select from pg_rewrite r join pg_class c on c.oid = logged
    where r.ev_class = to_regclass('pg_temp.logged_columns')
      and position(':varattno 0 :vartype ' || c.reltype || ' ' in r.ev_action::text) > 0
  ) then
    raise exception 'log_table(%): name columns of the row, not the whole row, in: %',
      logged, list
      using errcode = 'feature_not_supported';
  end if;
  -- Only columns and constants, of types that are written without regard to any setting. An expression may contain
  -- anything.
  is_fixed := not exists (
    select from pg_type t
    where t.oid = any (types) and t.typoutput::regproc::text <> all (array[
      'bpcharout', 'boolout', 'enum_out', 'int2out', 'int4out', 'int8out', 'json_out', 'jsonb_out', 'nameout',
      'numeric_out', 'textout', 'uuid_out', 'varcharout'
    ])
  ) and not exists (
    select from pg_rewrite r cross join regexp_matches(r.ev_action::text, '[{]([A-Z]+)', 'g') as node
    where r.ev_class = to_regclass('pg_temp.logged_columns') and node[1] <> all (array[
      'ALIAS', 'BOOLEANTEST', 'CONST', 'FROMEXPR', 'QUERY', 'RANGETBLENTRY', 'RANGETBLREF', 'RTE', 'RTEPERMISSIONINFO',
      'TARGETENTRY', 'VAR'
    ])
  );
  drop view pg_temp.logged_columns;
end $$;
comment on function audit_log_private.selected_columns is
  'What a select list gives over a table: names and types; the columns that it uses; and whether no setting changes '
  'its values as text.';

create function audit_log_private.make_row_view(logged regclass, name name, used text[]) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  unseen text;
begin
  select string_agg(a.attname, ', ') into unseen from pg_attribute a
  where a.attrelid = logged and a.attname = any (used) and a.attgenerated = 'v';
  if unseen is not null then
    raise exception 'log_table(%): triggers do not see the value of virtual generated columns (%)',
      logged, unseen
      using errcode = 'feature_not_supported';
  end if;
  execute format(
    -- With another table beside it, every version of Postgres prints the columns of the table as t.id.
    'create view audit_log_private.%I with (security_invoker = true) as select %s from %s as t, (select) as one_row',
    name, coalesce((select string_agg(format('t.%I', u), ', ') from unnest(used) as u), 'null as nothing'), logged
  );
  execute format(
    'comment on view audit_log_private.%I is %L', name, 'The columns that log_table names. Made by log_table.'
  );
  execute format('revoke all on audit_log_private.%I from public, anon, authenticated, service_role', name);
end $$;
comment on function audit_log_private.make_row_view is 'Makes the view of the columns of a table that are used.';

create function audit_log_private.make_row_function(
  logged regclass, name name,
  -- Select lists. That of the row: organization, agent_name, person, is_logged. They are "log 1" to "log 4" below.
  row_list text, data text, changes text,
  pairing_columns text[]
) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $fn$
declare
  row_columns constant record := audit_log_private.selected_columns(logged, row_list);
  field constant record := audit_log_private.selected_columns(logged, data);
  change constant record := audit_log_private.selected_columns(logged, changes);
  -- Only columns that are used: the others may be dropped later.
  used constant text[] := array(
    select distinct u from unnest(row_columns.used || field.used || change.used || pairing_columns) as u order by u
  );
  field_count constant integer := cardinality(field.names);
begin
  perform audit_log_private.make_row_view(logged, name, used);
  execute format(
    -- $1 and "log 1" are names that no table and no column has. Without the names after as, Postgres would print
    -- another text once it has read its own, and projects with declarative schemas would always find a change.
    $sql$
      create function audit_log_private.%1$I(logged audit_log_private.%1$I)
      returns table (
        logged_row audit_log_private.%1$I, row_id text, external_id text, agent_name text, person text,
        is_logged boolean, data jsonb, change_values text[]
      )
      language sql stable
      begin atomic
        select
          $1 as logged_row, %2$s as row_id, "log 1"::text, audit_log_private.name_or_unnamed("log 2"::text), %3$s,
          "log 4" is true, jsonb_build_object(%4$s), array[%5$s]::text[]
        from (select %6$s) as %7$I cross join lateral (select %8$s) as "log values" (%9$s);
      end
    $sql$,
    name,
    case cardinality(pairing_columns)
      -- For each row, there is one old and one new row: they have the same id.
      when 0 then $$''$$
      when 1 then format('($1).%I::text', pairing_columns[1])
      else format(
        'array[%s]::text', (select string_agg(format('($1).%I::text', k), ', ') from unnest(pairing_columns) as k)
      )
    end,
    case
      when row_columns.types[3] = 'uuid'::regtype
        then '(select audit_log_private.valid_email(u.email) from auth.users u where u.id = "log 3")'
      else 'audit_log_private.valid_email("log 3"::text)'
    end,
    (
      select string_agg(
        format('%L, coalesce(audit_log_private.cut("log %s"::text, 100), %L)', f.name, 4 + f.n, ''), ', '
      )
      from unnest(field.names) with ordinality as f (name, n)
    ),
    (
      select string_agg(format('"log %s"::text', 4 + field_count + n), ', ')
      from generate_subscripts(change.names, 1) as n
    ),
    (select string_agg(format('($1).%1$I as %1$I', u), ', ') from unnest(used) as u),
    (select c.relname from pg_class c where c.oid = logged),
    concat_ws(', ', row_list, nullif(data, ''), nullif(changes, '')),
    (
      select string_agg(format('"log %s"', n), ', ')
      from generate_series(1, 4 + field_count + cardinality(change.names)) as n
    )
  );
  execute format(
    'revoke all on function audit_log_private.%1$I(audit_log_private.%1$I) '
    'from public, anon, authenticated, service_role',
    name
  );
  execute format(
    'comment on function audit_log_private.%1$I(audit_log_private.%1$I) is %2$L',
    name, 'What a row means to the log. Made by log_table.'
  );
end $fn$;
comment on function audit_log_private.make_row_function is
  'Makes the function that says what a row means to the log, over the view that make_row_view makes.';

create function audit_log_private.columns_are(view regclass, columns text) returns boolean
language plpgsql immutable set search_path = pg_catalog, pg_temp set quote_all_identifiers = off as $$
declare
  definition constant text := pg_get_viewdef(view);
begin
  if definition is null then
    raise exception 'the snapshot of this transaction is older than %', view
      using errcode = 'serialization_failure', hint = 'Repeat the transaction.';
  end if;
  return starts_with(definition, columns || ' FROM ');
end $$;
comment on function audit_log_private.columns_are is
  'Whether a view''s columns are still these. It is called immutable so that Postgres asks once for each plan.';

create function audit_log_private.logging_statements(
  logged regclass, name name, change_names text[], kinds text[], is_for_each_row boolean,
  -- What the statements call the trigger's action and operation, the request's fields, and the rows.
  terms text[] default '{tg_argv[0],tg_op,request.email,request.fallback_email,request.data,old,new}',
  out columns text, out differing text, out log_update text, out log_other text
)
language plpgsql volatile set search_path = pg_catalog, pg_temp set quote_all_identifiers = off as $fn$
declare
  row_function constant text := format('audit_log_private.%I', name);
  logged_rows constant text :=
    '(select r.* from (%s from %s as t) as v cross join lateral %s(v.*) as r where r.is_logged)';
  -- An update that moves a row to another organization, or changes its primary key, is two entries: what was there, and
  -- what is there. So no organization gets values of another. A full join is never a nested loop, however few rows it
  -- was planned for.
  pairs_of constant text := '%s as o full join %s as n on n.row_id = o.row_id '
    'and coalesce(n.external_id, $$$$) = coalesce(o.external_id, $$$$)';
  rows_of constant text[] := case
    when is_for_each_row then array[format('(select (%s).*)', terms[6]), format('(select (%s).*)', terms[7])]
    else '{former_rows,changed_rows}'
  end;
  pairs text;
  differ constant text := 'n.change_values is distinct from o.change_values or n.change_values = $${}$$';
  -- ensure_organization is only asked for an organization that the log does not know yet. What needs no
  -- more than 600 bytes in binary form needs no more than 4096 as text.
  insert_entries constant text := $sql$
    insert into audit_log.audit_entries (organization_id, action, user_email, agent_name, data)
    select
      e.organization_id, %1$s, coalesce(%3$s, case when %2$s <> 'DELETE' then e.person end, %4$s), e.agent_name,
      case when pg_column_size(e.data) <= 600 then e.data else audit_log_private.fitted(e.data) end
    from (
      select
        coalesce(o.id, audit_log_private.ensure_organization(r.external_id)) as organization_id,
        r.agent_name, r.person, r.data || %5$s as data
      from %8$s as r left join audit_log.organizations o on o.platform_id = r.external_id
      -- Computes each value once.
      offset 0
    ) as e
    where e.organization_id is not null$sql$;
begin
  -- The view's columns with the names that they have now in the table: select t.id, t."Title" as title.
  columns := split_part(pg_get_viewdef(row_function::regclass), format(' FROM %s t,', logged), 1);
  pairs := format(
    pairs_of,
    format(logged_rows, columns, rows_of[1], row_function), format(logged_rows, columns, rows_of[2], row_function)
  );
  differing := format('from %s where %s', pairs, differ);
  log_update := format(insert_entries, variadic terms || format(
    $sql$(
        select
          r.external_id, r.agent_name, r.person,
          audit_log_private.with_changes(r.data, %L, %L, o.change_values, n.change_values) as data
        from %s
        cross join lateral %s(case when n.row_id is null then o.logged_row else n.logged_row end) as r
        where %s
      )$sql$,
    change_names, kinds, pairs, row_function, differ
  ));
  log_other := format(insert_entries, variadic terms || format(logged_rows, columns, 'changed_rows', row_function));
end $fn$;
comment on function audit_log_private.logging_statements is
  'The statements of a trigger function, with the names that the columns have now.';

create function audit_log_private.make_trigger_function(
  logged regclass, name name, on_failure text, change_names text[], kinds text[], is_for_each_row boolean,
  is_fixed boolean
) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $fn$
declare
  made constant record := audit_log_private.logging_statements(logged, name, change_names, kinds, is_for_each_row);
begin
  execute format(
    'create or replace function audit_log_private.%I() returns trigger language plpgsql security definer %s as %L',
    name,
    concat(
      'set search_path = pg_catalog, pg_temp',
      -- All settings on which a value as text depends. Otherwise two values could have the same text, and an update be
      -- no change. Not on the row function, which Postgres would no longer inline. They cost an insert some percent.
      case when not is_fixed then $sql$
        set timezone = 'UTC' set datestyle = 'ISO, MDY' set intervalstyle = postgres set extra_float_digits = 1
        set bytea_output = hex set xmlbinary = base64 set lc_monetary = 'C' set lc_numeric = 'C'
        set lc_time = 'C'$sql$ end,
      -- For the name in logging_failures.
      case when not is_fixed or on_failure = 'carry_on' then ' set quote_all_identifiers = off' end
    ),
    format(
      $body$
declare
  request record;
begin
  -- Postgres plans this anew, and so asks columns_are() again, once the table has changed: the plan depends on it.
  perform from (select) as one_row left join %11$s as t on false where not audit_log_private.columns_are(%1$L, %2$L);
  if found then
    -- A column has another name now, and another column may have its old name.
    request := audit_log_private.request_context();
    execute (
      select case tg_op when 'UPDATE' then log_update else log_other end
      from audit_log_private.logging_statements(tg_relid, %3$L, %4$L, %12$L, %5$L, '{$1,$2,$3,$4,$5,$6,$7}')
    )
    using tg_argv[0], tg_op, request.email, request.fallback_email, request.data%6$s;
    return null;
  end if;
  if tg_op = 'UPDATE' then
    -- This question is cheaper than an insert of no rows.
    perform %7$s;
    if not found then
      return null;
    end if;
    request := audit_log_private.request_context();%8$s;
  else
    request := audit_log_private.request_context();%9$s;
  end if;
  return null;%10$s
end $body$,
      format('audit_log_private.%I', name), made.columns, name, change_names, is_for_each_row,
      case when is_for_each_row then ', old, new' else '' end, made.differing, made.log_update, made.log_other,
      case on_failure when 'carry_on' then $sql$
exception
  -- Whoever chose such an isolation repeats the transaction, and with it the entries.
  when serialization_failure then raise;
  when others then
    perform audit_log_private.note_failure(
      format('%I.%I', tg_table_schema, tg_table_name), sqlstate || ': ' || sqlerrm
    );
    return null;$sql$ else '' end,
      -- The table of new rows needs no right to read the table. Row triggers have none.
      case when is_for_each_row then format('audit_log_private.%I', name) else 'changed_rows' end,
      kinds
    )
  );
  execute format('revoke all on function audit_log_private.%I() from public, anon, authenticated, service_role', name);
end $fn$;
comment on function audit_log_private.make_trigger_function is 'Makes the trigger function of a table.';

create function audit_log_private.follow_renames() returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  made record;
begin
  for made in
    select
      l.logged, p.proname as name, p.prosrc as body, l.arguments ->> 'on_failure' as on_failure,
      array(select jsonb_array_elements_text(l.arguments -> 'change_names')) as change_names,
      array(select jsonb_array_elements_text(l.arguments -> 'kinds')) as kinds,
      l.arguments -> 'is_fixed' is not distinct from 'true' as is_fixed,
      bool_or(t.tgtype & 1 = 1) as is_for_each_row
    from audit_log_private.logged_tables() l
    join pg_proc p on p.oid = l.trigger_function and pg_has_role(p.proowner, 'usage')
    join pg_trigger t on t.tgfoid = p.oid and t.tgrelid = l.logged
    group by l.logged, l.arguments, p.oid
  loop
    if position(quote_literal(
      (audit_log_private.logging_statements(
        made.logged, made.name, made.change_names, made.kinds, made.is_for_each_row
      )).columns
    ) in made.body) = 0 then
      perform audit_log_private.make_trigger_function(
        made.logged, made.name, made.on_failure, made.change_names, made.kinds, made.is_for_each_row, made.is_fixed
      );
    end if;
  end loop;
end $$;
comment on function audit_log_private.follow_renames is
  'Makes the trigger functions anew whose columns have other names now, so that writes are as fast as before.';

create function audit_log_private.unlog_table(logged regclass) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp set client_min_messages = warning as $$
declare
  made record;
begin
  for made in
    select 'function ' || l.trigger_function as name from audit_log_private.logged_tables() l
    where l.logged = unlog_table.logged
    union
    select 'view ' || c.oid::regclass as name from pg_depend d
    join pg_rewrite r on d.classid = 'pg_rewrite'::regclass and r.oid = d.objid
    join pg_class c on c.oid = r.ev_class
    where d.refclassid = 'pg_class'::regclass and d.refobjid = unlog_table.logged
      and c.relnamespace = 'audit_log_private'::regnamespace and c.relname like E'logged\\_%'
    -- The function first, with its triggers: this locks the table, before the view, as writers do.
    order by name
  loop
    execute format('drop %s cascade', made.name);
  end loop;
end $$;
comment on function audit_log_private.unlog_table is 'Ends what log_table began, if it did. Entries stay.';

create function audit_log_private.make_triggers(
  logged regclass, name name, actions jsonb, is_for_each_row boolean
) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  made record;
begin
  for made in select a.event, a.action from jsonb_each_text(actions) as a (event, action) loop
    execute format(
      'create trigger audit_log_on_%1$s after %1$s on %2$s %3$s '
      'when (%4$L::regprocedure is not null) execute function audit_log_private.%5$I(%6$L)',
      made.event, logged,
      case
        when made.event = 'insert' then 'referencing new table as changed_rows'
        when made.event = 'delete' then 'referencing old table as changed_rows'
        when is_for_each_row then 'for each row'
        else 'referencing old table as former_rows new table as changed_rows'
      end,
      format('audit_log_private.%1$I(audit_log_private.%1$I)', name), name, made.action
    );
  end loop;
end $$;
comment on function audit_log_private.make_triggers is 'Makes the triggers of a table: {event: action}.';

create function audit_log_private.refused_arguments(
  relation pg_class, on_failure text, organization text, actions jsonb, field_names text[],
  change_names text[], pairing_columns text[]
) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return case
    when relation.relkind not in ('r', 'p')
      or relation.relnamespace in ('audit_log'::regnamespace, 'audit_log_private'::regnamespace)
      then 'not a table of the platform'
    when (on_failure in ('refuse', 'carry_on')) is not true then 'on_failure is refuse or carry_on'
    when (organization ~* E'^\\s*(null)?\\s*$') is not false
      then 'say to which organization a row belongs: organization => ''organization_id''. If rows belong to none, '
        'docs/adopting.md, "Tables without an organization", says what to do'
    when actions = '{}' then 'give on_insert, on_update or on_delete'
    when field_names && '{caller,changes}'
      or exists (select from unnest(field_names) as f where starts_with(f, 'audit_log_'))
      then 'the names caller and changes in data are reserved, and those that begin with audit_log_'
    when field_names || change_names && '{?column?}' then 'name each value of data and changes: price * 2 as price'
    -- Leaves each value some bytes, and the caller 1,500.
    when octet_length(to_jsonb(field_names || change_names)::text)
      + 24 * cardinality(field_names || change_names) > 2500
      then 'data and changes have too many columns for the 4096 bytes of an entry'
    when actions ? 'update' and pairing_columns is null and relation.relkind = 'p'
      then 'to log updates of a partitioned table, give it a primary key that is not deferrable'
    else (select min(audit_log_private.required_but_missing(a.value, field_names)) from jsonb_each_text(actions) as a)
  end;
end $$;
comment on function audit_log_private.refused_arguments is
  'Why log_table refuses its arguments; null if it does not.';

create function audit_log_private.made_name(logged regclass) returns name
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  relation constant name := (select c.relname from pg_class c where c.oid = logged);
  name name;
  number integer := 1;
begin
  name := 'logged_' || relation;
  while exists (
    select from pg_proc p where p.pronamespace = 'audit_log_private'::regnamespace and p.proname = name
  ) or exists (
    select from pg_class c where c.relnamespace = 'audit_log_private'::regnamespace and c.relname = name
  ) loop
    number := number + 1;
    name := 'logged_' || left(relation, 12) || '_' || number;
  end loop;
  return name;
end $$;
comment on function audit_log_private.made_name is 'The name of what log_table makes for a table.';

create function audit_log_private.log_table(
  logged regclass,
  -- refuse: a statement fails if its entries cannot be written. carry_on: it continues, and health() has the failure.
  on_failure text,
  -- Expressions over the columns of the table.
  organization text default null,
  agent_name text default 'null',
  on_insert text default null,
  on_update text default null,
  on_delete text default null,
  -- Who it was where nobody is signed in: an account's id (uuid), or an address. Not who deletes a row: no column
  -- knows.
  person text default 'null',
  -- Select lists. An update that changes none of `changes` is not logged.
  data text default '',
  changes text default '',
  log_if text default 'true'
) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp
  -- Those on which the meaning of the expressions depends.
  set timezone = 'UTC' set datestyle = 'ISO, MDY' set intervalstyle = postgres set standard_conforming_strings = on
  set transform_null_equals = off set array_nulls = on set quote_all_identifiers = off as $$
declare
  relation constant pg_class := (select c from pg_class c where c.oid = logged);
  actions constant jsonb := jsonb_strip_nulls(
    jsonb_build_object('insert', on_insert, 'update', on_update, 'delete', on_delete)
  );
  field constant record := audit_log_private.selected_columns(logged, data);
  row_list constant text := format(
    '(%s) as organization, (%s) as agent_name, (%s) as person, (%s) is true as is_logged',
    organization, agent_name, person, log_if
  );
  change constant record := audit_log_private.selected_columns(logged, changes);
  kinds constant text[] := array(
    select audit_log_private.json_kind(t.type) from unnest(change.types) with ordinality as t (type, n) order by t.n
  );
  pairing_columns constant text[] := audit_log_private.pairing_columns(logged);
  is_fixed boolean;
  name name;
  problem constant text := audit_log_private.refused_arguments(
    relation, on_failure, organization, actions, field.names, change.names, pairing_columns
  );
begin
  if problem is not null then
    raise exception 'log_table(%): %', logged, problem using errcode = 'invalid_parameter_value';
  elsif on_delete is not null and organization ~* E'\\mselect\\M' then
    raise warning 'log_table(%): organization reads another table. If a row is deleted there and takes rows of % with '
      'it (on delete cascade), the log gets no entry for them. Use a column of the row.', logged, logged;
  end if;
  is_fixed := field.is_fixed and change.is_fixed
    and (audit_log_private.selected_columns(logged, row_list)).is_fixed
    and (audit_log_private.selected_columns(
      logged, coalesce((select string_agg(quote_ident(k), ', ') from unnest(pairing_columns) as k), '')
    )).is_fixed;
  perform audit_log_private.unlog_table(logged);
  name := audit_log_private.made_name(logged);
  perform audit_log_private.make_row_function(
    logged, name,
    row_list, data, changes, case when on_update is null then '{}' else coalesce(pairing_columns, '{}') end
  );
  perform audit_log_private.make_trigger_function(
    logged, name, on_failure, change.names, kinds, pairing_columns is null, is_fixed
  );
  execute format('comment on function audit_log_private.%I() is %L', name, jsonb_strip_nulls(jsonb_build_object(
    'logged', logged, 'on_failure', on_failure, 'organization', organization, 'agent_name', agent_name,
    'on_insert', on_insert, 'on_update', on_update, 'on_delete', on_delete, 'person', person,
    'data', data, 'changes', changes, 'log_if', log_if, 'field_names', field.names,
    'change_names', change.names, 'kinds', kinds, 'is_fixed', is_fixed
  )));
  perform audit_log_private.make_triggers(logged, name, actions, pairing_columns is null);
end $$;
comment on function audit_log_private.log_table is
  'Logs a table from now on (docs/adopting.md). A repeat replaces what the first call said. Raises 22023 or 0A000.';
