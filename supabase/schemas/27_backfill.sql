-- Entries for the rows that were in a table before log_table logged it (docs/adopting.md). A row gets one unless the
-- log has the entry of its insert. An entry and a row belong together if they have the same primary key: so data has
-- to name it. A time cannot tell, because people choose the times of rows, and transactions wait for log_table.

create function audit_log_private.same_key(logged regclass, arguments jsonb, key text[]) returns text
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  field constant record := audit_log_private.selected_columns(logged, arguments ->> 'data');
  organization constant record := audit_log_private.selected_columns(
    logged, format('(%s) as organization', arguments ->> 'organization')
  );
  missing text;
  condition text;
  problem text;
begin
  select
    string_agg(quote_ident(k.name), ', ') filter (where f.name is null),
    string_agg(format('k.data ->> %1$L = p.data ->> %1$L', f.name), ' and ')
  into missing, condition
  from unnest(key) as k (name)
  cross join lateral (select field.names[array_position(field.columns, k.name)]) as f (name)
  where k.name is distinct from organization.columns[1] or f.name is not null;
  problem := case
    when key is null then 'first give the table a primary key that is not deferrable'
    when missing is not null then format('data does not name the primary key (%s)', missing)
    when arguments -> 'on_insert' = arguments -> 'on_update' and arguments ->> 'changes' = ''
      then 'inserts have the action of updates, and there are no changes'
  end;
  if problem is not null then
    raise exception 'backfill_table(%): %', logged, problem
      using errcode = 'invalid_parameter_value',
        hint = 'Call log_table again, with data => ''id as document_id'' or whatever the key is. By the key, '
          'backfill_table finds the rows whose inserts the log has already.';
  end if;
  return coalesce(condition, 'true');
end $$;
comment on function audit_log_private.same_key is
  'The condition that an entry k and a row p have the same primary key. Raises 22023 if data does not tell.';

create function audit_log_private.backfill_statement(
  logged regclass, name name, arguments jsonb, "at" text, is_first boolean
) returns text
language plpgsql volatile set search_path = pg_catalog, pg_temp as $fn$
declare
  key constant text[] := audit_log_private.pairing_columns(logged);
  same_key constant text := audit_log_private.same_key(logged, arguments, key);
  columns constant text := (select string_agg(format('t.%I', k), ', ') from unnest(key) as k);
  place constant text := (
    select string_agg(format('$2[%s]::%s', k.n, format_type(a.atttypid, a.atttypmod)), ', ' order by k.n)
    from unnest(key) with ordinality as k (name, n)
    join pg_attribute a on a.attrelid = logged and a.attname = k.name
  );
begin
  return format(
    $sql$
      with piece as materialized (
        select
          row_number() over (order by %1$s) as n, array[%1$s]::text[] as key, r.*, m.moment,
          case when r.is_logged then coalesce(o.id, audit_log_private.organization_of(r.external_id)) end
            as organization_id
        from (select t.* from %2$s as t where %3$s order by %1$s limit $4) as t
        cross join lateral (select (%4$s)::timestamptz from (select t.*) as %5$I) as m (moment)
        cross join lateral (%6$s) as v
        cross join lateral audit_log_private.%7$I(v.*) as r
        left join audit_log.organizations o on o.external_id = r.external_id
      ),
      known as materialized (
        select e.organization_id, e.data from audit_log.audit_entries e
        where e.organization_id = any (array(select distinct p.organization_id from piece p))
          -- Not those of updates, which may have the same action.
          and e.action = $3 and e.created_at >= $1 and not e.data ? 'changes'
      ),
      written as (
        insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name, data)
        select
          p.organization_id,
          case when p.moment >= '0001-01-01 00:00:00+00' and p.moment < $1 then p.moment else $1 end,
          $3, coalesce(p.person, 'unknown@invalid'), p.agent_name,
          audit_log_private.fitted('{"backfilled": true}' || p.data)
        from piece p join audit_log.organizations o on o.id = p.organization_id and o.leaving_at is null
        -- A time in between says that the log has it, in an entry without the key perhaps. One to come says nothing.
        where (p.moment >= $1 and p.moment < clock_timestamp()) is not true
          and not exists (select from known k where k.organization_id = p.organization_id and %8$s)
        returning 1
      )
      select
        (select p.key from piece p order by p.n desc limit 1) as last_key,
        (select count(*) from piece) as rows, (select count(*) from written) as entries
    $sql$,
    columns, logged, case when is_first then 'true' else format('(%s) > (%s)', columns, place) end,
    "at", (select c.relname from pg_class c where c.oid = logged),
    split_part(
      pg_get_viewdef(format('audit_log_private.%I', name)::regclass), format(' FROM %s t,', logged), 1
    ),
    name, same_key
  );
end $fn$;
comment on function audit_log_private.backfill_statement is
  'The statement of one piece. $1: since when inserts are logged. $2: the last key of the piece before. $3: their '
  'action. $4: how many rows. Returns the last key, how many rows, and how many entries.';

create function audit_log_private.backfill_table(
  logged regclass,
  -- When a row was inserted: an expression over the columns of the table; 'null' if nothing tells.
  "at" text
) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp
  -- Those of the triggers of log_table, so that keys are the same texts.
  set timezone = 'UTC' set datestyle = 'ISO, MDY' set intervalstyle = postgres set extra_float_digits = 1
  set bytea_output = hex set xmlbinary = base64 set lc_monetary = 'C' set lc_numeric = 'C' set lc_time = 'C'
  set quote_all_identifiers = off
  -- However few entries the plan expects, they are hashed.
  set enable_nestloop = off set jit = off as $$
declare
  piece constant integer := 5000;
  made record;
  state record;
  last_key text[];
  read_rows bigint;
  written bigint;
begin
  select p.proname as name, l.arguments, c.reltuples::bigint as rows into made
  from audit_log_private.logged_tables() l
  join pg_proc p on p.oid = l.trigger_function
  join pg_class c on c.oid = l.logged
  where l.logged = backfill_table.logged and l.arguments ? 'on_insert';
  if not found or "at" is null then
    raise exception 'backfill_table(%): %', logged, case
      when "at" is null then $text$say when a row was inserted: at => 'created_at', or 'null' if nothing tells$text$
      else 'log_table does not log the inserts of this table'
    end
      using errcode = 'invalid_parameter_value';
  end if;
  -- Two runs at once take turns.
  select b.* into strict state from audit_log_private.backfills b where b.trigger_function = made.name for update;
  if state.finished_at is not null then
    raise notice 'backfill_table(%): done on %, nothing is left to do', logged, state.finished_at::date;
    return false;
  end if;
  execute audit_log_private.backfill_statement(logged, made.name, made.arguments, "at", state.done_until is null)
  into last_key, read_rows, written using state.since, state.done_until, made.arguments ->> 'on_insert', piece;
  update audit_log_private.backfills b
  set done_until = coalesce(last_key, b.done_until), rows = b.rows + read_rows, entries = b.entries + written,
    finished_at = case when read_rows < piece then clock_timestamp() end
  where b.trigger_function = made.name
  returning b.* into state;
  raise notice 'backfill_table(%): % rows looked at, % entries written', logged,
    case
      when state.finished_at is null then format('%s of some %s', state.rows, greatest(made.rows, state.rows))
      else 'all ' || state.rows
    end,
    state.entries;
  return state.finished_at is null;
end $$;
comment on function audit_log_private.backfill_table is
  'Writes entries for 5000 of the rows from before log_table. Returns whether there are more: commit, and call it '
  'again. Does nothing once all is done. Raises 22023 and says why.';
