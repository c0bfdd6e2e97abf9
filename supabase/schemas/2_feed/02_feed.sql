-- Pages of the feed. read_feed_from puts batches together, and read_feed encrypts the cursor for a reader.

create function audit_log_private.read_feed(organization_id uuid, query audit_log.page_query)
returns audit_log_private.reading
-- Stable: all its statements see one snapshot.
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  matching constant audit_log_private.matching := audit_log_private.count_matching(organization_id, query);
  cursor_key audit_log_private.cursor_key;
  cursor audit_log_private.feed_cursor;
  step record;
  read audit_log_private.reading;
begin
  read.decision := matching.decision;
  if read.decision <> 'accepted' then
    return read;
  end if;
  cursor_key := audit_log_private.cursor_key(audit_log_private.feed_scope(organization_id, query));
  if query.after <> 'beginning' then
    cursor := audit_log_private.decode_cursor(query.after, cursor_key);
    if cursor is null then
      read.decision := 'invalid_cursor';
      return read;
    end if;
  end if;
  step := audit_log_private.read_feed_from(organization_id, query, cursor);
  cursor := step.cursor;
  read.has_more := step.has_more;
  if read.has_more and cursor.seen is not null then
    -- Only the late transactions that are not read yet, to keep the cursor short.
    cursor.seen := concat_ws(
      ':', pg_snapshot_xmin(cursor.seen), pg_snapshot_xmax(cursor.seen),
      array_to_string(audit_log_private.late_transactions(cursor), ',')
    )::pg_snapshot;
  end if;
  read.total := matching.total;
  read.cursor := audit_log_private.encode_cursor(cursor, cursor_key);
  read.items := '[' || array_to_string(step.items, E',\n') || ']';
  read.entries := cardinality(step.items);
  return read;
end $$;
comment on function audit_log_private.read_feed is
  'The entries that a cursor has not seen, and the next cursor. A page may be short, or empty, and have more.';

create type audit_log_private.feed_step as (items text[], cursor audit_log_private.feed_cursor, has_more boolean);
comment on type audit_log_private.feed_step is 'Lines, the cursor behind the last one, and whether more follow.';

create function audit_log_private.read_feed_from(
  organization_id uuid, query audit_log.page_query, cursor audit_log_private.feed_cursor
) returns audit_log_private.feed_step
-- Stable: all its statements see one snapshot, the one that log_snapshot() returns.
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  is_newest_batch boolean := false;
  batch audit_log_private.feed_step;
  step audit_log_private.feed_step;
begin
  step.items := '{}';
  loop
    if cursor.bound is null then
      is_newest_batch := true;
      cursor.bound := audit_log_private.log_snapshot();
      cursor.transaction_id := pg_snapshot_xmin(cursor.seen);
    end if;
    batch := audit_log_private.list_unseen(organization_id, query, cursor, query.page_limit - cardinality(step.items));
    step.items := step.items || batch.items;
    if batch.has_more then
      cursor := batch.cursor;
      exit;
    elsif cursor.transaction_id < pg_snapshot_xmax(cursor.seen) then
      -- The late transactions are read. Now the new ones.
      cursor := (cursor.seen, cursor.bound, pg_snapshot_xmax(cursor.seen), null, null)::audit_log_private.feed_cursor;
      continue;
    end if;
    -- The batch is read to its end. What was committed meanwhile is the next batch.
    cursor := (cursor.bound, null, null, null, null)::audit_log_private.feed_cursor;
    exit when is_newest_batch;
  end loop;
  step.cursor := cursor;
  step.has_more := cursor.bound is not null;
  return step;
end $$;
comment on function audit_log_private.read_feed_from is
  'What read_feed reads, from a cursor as a value (null: the beginning). The caller has checked the actions.';

create function audit_log_private.feed_scope(organization_id uuid, query audit_log.page_query) returns text
-- The session's zone is that of times as text.
language plpgsql stable set search_path = pg_catalog, pg_temp set timezone = 'UTC' as $$
begin
  query.actions := (select array_agg(a order by a collate "C") from unnest(query.actions) as a);
  -- The range is in since and until. The rest of these says where to begin, and how much to read.
  return organization_id || ' ' || jsonb_strip_nulls(
    to_jsonb(query) - '{start_date,end_date,page_limit,page_offset,newest_first,after}'::text[]
  );
end $$;
comment on function audit_log_private.feed_scope is 'What a query asks of the feed. A cursor is valid for one scope.';

create function audit_log_private.late_transactions(cursor audit_log_private.feed_cursor) returns xid8[]
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return array(
    select x from pg_snapshot_xip(cursor.seen) as x
    where x >= cursor.transaction_id and pg_visible_in_snapshot(x, cursor.bound)
    order by x
  );
end $$;
comment on function audit_log_private.late_transactions is
  'The transactions that were in progress when the reader last asked, have committed since, and are not read yet.';

create function audit_log_private.list_unseen(
  organization_id uuid, query audit_log.page_query, cursor audit_log_private.feed_cursor, wanted integer
) returns audit_log_private.feed_step
-- The settings are those of read_page.
language plpgsql stable set search_path = pg_catalog, pg_temp
  set plan_cache_mode = 'force_generic_plan' set jit = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  is_first constant boolean := cursor.seen is null;
  -- The most entries to look at, matching or not: a page of any filter takes less than 50 ms of processor time. If all
  -- match (except those committed since the batch began), no more than are wanted.
  most constant integer := case
    when is_first and not audit_log_private.searches(query) and (query.actions is null or query.user_email is null)
      then least(10000, wanted + 1) else 10000
  end;
  -- Null if these are read.
  late_transactions constant xid8[] := case
    when cursor.transaction_id < pg_snapshot_xmax(cursor.seen) then audit_log_private.late_transactions(cursor)
  end;
  -- Without a last entry, before the range or the transaction.
  place constant audit_log_private.place := case
    when cursor.id is null then audit_log_private.place_before(case when is_first then query.since else '-infinity' end)
    else (cursor.created_at, cursor.id)::audit_log_private.place
  end;
  unseen record;
  batch audit_log_private.feed_step;
begin
  -- One more than wanted, to know whether there are more.
  select
    array_agg(audit_log_private.entry_line(e::audit_log.audit_entries)) as lines,
    array_agg(e.transaction_id) as transaction_ids, array_agg(e.created_at) as times, array_agg(e.id) as ids
  into strict unseen
  from (
    select e.* from audit_log_private.next_in_batch(organization_id, query, cursor, place, late_transactions, most) as e
    where pg_visible_in_snapshot(e.transaction_id, cursor.bound)
      and e.created_at >= query.since and e.created_at < query.until
      and (query.actions is null or e.action = any (query.actions))
      and (query.user_email is null or lower(e.user_email) = query.user_email)
      and audit_log_private.is_found(e, query)
    limit wanted + 1
  ) as e;
  batch.has_more := cardinality(unseen.lines) > wanted;
  if batch.has_more then
    batch.items := unseen.lines[1 : wanted];
    batch.cursor := case when wanted = 0 then cursor else (
      cursor.seen, cursor.bound, unseen.transaction_ids[wanted], unseen.times[wanted], unseen.ids[wanted]
    )::audit_log_private.feed_cursor end;
    return batch;
  end if;
  batch.items := coalesce(unseen.lines, '{}');
  -- If as many entries were examined as may be, the next page begins after the last of them.
  select (cursor.seen, cursor.bound, e.transaction_id, e.created_at, e.id)::audit_log_private.feed_cursor
  into batch.cursor
  from audit_log_private.next_in_batch(organization_id, query, cursor, place, late_transactions, most) as e
  limit 1 offset most - 1;
  batch.has_more := found;
  return batch;
end $$;
comment on function audit_log_private.list_unseen is
  'The next entries of a batch, whether there may be more, and where to continue. The first batch is read by time; '
  'later ones by transaction, late ones first (cursor.transaction_id says which).';

create function audit_log_private.next_in_batch(
  organization_id uuid, query audit_log.page_query, cursor audit_log_private.feed_cursor, place audit_log_private.place,
  late_transactions xid8[], most integer
)
returns setof audit_log.audit_entries
-- Without settings, so that Postgres inlines it. Its names are resolved here, once.
language sql stable
begin atomic
  -- Only one branch reads. In the first batch, all entries of a person are examined, whatever their action.
  select e.* from audit_log_private.scan(
    organization_id, case when (query).user_email is null then (query).actions end, (query).user_email, place,
    (query).until, 0, most
  ) as e
  where (cursor).seen is null
  union all
  (
    -- A lateral join goes through its left side in order. To sort again would read all of a large transaction.
    select e.* from (select x as transaction_id from unnest(late_transactions) as x order by x) as late
    cross join lateral (
      select e.* from audit_log.audit_entries e
      where e.organization_id = next_in_batch.organization_id and e.transaction_id = late.transaction_id
        -- The place is one of its own transaction. Without it in the comparison, the scan begins there.
        and (e.created_at, e.id) > (
          case when late.transaction_id = (cursor).transaction_id then (place).created_at else '-infinity' end,
          case
            when late.transaction_id = (cursor).transaction_id then (place).id
            else '00000000-0000-0000-0000-000000000000'
          end
        )
      order by e.created_at, e.id limit most
    ) as e
    limit most
  )
  union all
  (
    select e.* from audit_log.audit_entries e
    where (cursor).seen is not null and late_transactions is null and e.organization_id = next_in_batch.organization_id
      and (e.transaction_id, e.created_at, e.id) > ((cursor).transaction_id, (place).created_at, (place).id)
      and e.transaction_id < pg_snapshot_xmax((cursor).bound)
    order by e.transaction_id, e.created_at, e.id limit most
  );
end;
comment on function audit_log_private.next_in_batch is
  'The next entries of a batch after a place, whether they match or not. late_transactions: null if these are read.';
