-- Pages of the feed. list_unseen reads the next entries of a batch, through the index that fits it. read_feed puts
-- batches together to a page, and gives out the cursor behind its last entry. Seals hash their days with list_unseen, too.

create function audit_log_private.list_unseen(
  organization_id uuid, query audit_log.page_query, cursor audit_log_private.feed_cursor, most_examined integer default null,
  out items text, out entries integer, out has_more boolean, out last_transaction_id xid8, out last_created_at timestamptz,
  out last_id uuid
)
language plpgsql stable set search_path = pg_catalog, pg_temp set plan_cache_mode = 'force_generic_plan' set jit = off as $$
declare
  wanted_action constant text := query.action;
  wanted_email constant text := query.user_email;
  page_limit constant integer := query.page_limit;
  range_start constant timestamptz := query.start_date::timestamp at time zone 'UTC';
  range_end constant timestamptz := (query.end_date + 1)::timestamp at time zone 'UTC';
  bound constant pg_snapshot := cursor.bound;
  after_transaction constant xid8 := cursor.transaction_id;
  after_time constant timestamptz := cursor.created_at;
  after_id constant uuid := cursor.id;
  last_time constant timestamptz := cursor.last_created_at;
  last_entry_id constant uuid := cursor.last_id;
  is_by_time constant boolean := cursor.seen is null and wanted_action is null and wanted_email is null;
  is_by_action constant boolean := cursor.seen is null and wanted_action is not null and wanted_email is null;
  is_by_person constant boolean := cursor.seen is null and wanted_email is not null;
  is_of_late constant boolean := cursor.seen is not null and after_transaction < pg_snapshot_xmax(cursor.seen);
  is_of_new constant boolean := cursor.seen is not null and not is_of_late;
  -- Transactions that were in progress in the old snapshot, have committed since, and are not read yet.
  late_transactions constant xid8[] := array(
    select x from pg_snapshot_xip(cursor.seen) as x
    where is_of_late and x >= after_transaction and pg_visible_in_snapshot(x, bound)
  );
  lines text[];
  transaction_ids xid8[];
  times timestamptz[];
  ids uuid[];
begin
  select
    array_agg(i.item order by i.sort_transaction, i.created_at, i.id),
    array_agg(i.sort_transaction order by i.sort_transaction, i.created_at, i.id),
    array_agg(i.created_at order by i.sort_transaction, i.created_at, i.id),
    array_agg(i.id order by i.sort_transaction, i.created_at, i.id)
  into strict lines, transaction_ids, times, ids
  from (
    select
      -- The first batch is read by time alone.
      case when is_of_late or is_of_new then e.transaction_id end as sort_transaction,
      e.created_at,
      e.id,
      audit_log_private.entry_line(e::audit_log.audit_entries) as item
    from (
      -- A branch for each index, as in read_page. Each examines a bounded number of entries, and reads one entry
      -- more than the page takes, to know whether there are more.
      (
        select e.* from (
          select e.* from audit_log.audit_entries e
          where is_by_time and e.organization_id = list_unseen.organization_id
            and (e.created_at, e.id) > (after_time, after_id)
            and (e.created_at, e.id) <= (last_time, last_entry_id)
          order by e.created_at, e.id limit most_examined
        ) as e
        where pg_visible_in_snapshot(e.transaction_id, bound)
        order by e.created_at, e.id limit page_limit + 1
      )
      union all
      (
        select e.* from (
          select e.* from audit_log.audit_entries e
          where is_by_action and e.organization_id = list_unseen.organization_id
            and (e.action, e.created_at, e.id) > (wanted_action, after_time, after_id)
            and (e.action, e.created_at, e.id) <= (wanted_action, last_time, last_entry_id)
          order by e.action, e.created_at, e.id limit most_examined
        ) as e
        where pg_visible_in_snapshot(e.transaction_id, bound)
        order by e.action, e.created_at, e.id limit page_limit + 1
      )
      union all
      (
        select e.* from (
          select e.* from audit_log.audit_entries e
          where is_by_person and e.organization_id = list_unseen.organization_id
            and (e.user_email, e.created_at, e.id) > (wanted_email, after_time, after_id)
            and (e.user_email, e.created_at, e.id) <= (wanted_email, last_time, last_entry_id)
          order by e.user_email, e.created_at, e.id limit most_examined
        ) as e
        where pg_visible_in_snapshot(e.transaction_id, bound) and (wanted_action is null or e.action = wanted_action)
        order by e.user_email, e.created_at, e.id limit page_limit + 1
      )
      union all
      (
        -- A lateral join goes through its left side in order. To sort again would read all of a large transaction.
        select e.* from (
          select e.* from (select x as transaction_id from unnest(late_transactions) as x order by x) as late
          cross join lateral (
            select e.* from audit_log.audit_entries e
            where e.organization_id = list_unseen.organization_id
              and e.transaction_id = late.transaction_id
              and (e.transaction_id, e.created_at, e.id) > (after_transaction, after_time, after_id)
            order by e.transaction_id, e.created_at, e.id limit most_examined
          ) as e
          limit most_examined
        ) as e
        where e.created_at >= range_start and e.created_at < range_end
          and (wanted_action is null or e.action = wanted_action) and (wanted_email is null or e.user_email = wanted_email)
        limit page_limit + 1
      )
      union all
      (
        select e.* from (
          select e.* from audit_log.audit_entries e
          where is_of_new and e.organization_id = list_unseen.organization_id
            and (e.transaction_id, e.created_at, e.id) > (after_transaction, after_time, after_id)
            and e.transaction_id < pg_snapshot_xmax(bound)
          order by e.transaction_id, e.created_at, e.id limit most_examined
        ) as e
        where pg_visible_in_snapshot(e.transaction_id, bound)
          and e.created_at >= range_start and e.created_at < range_end
          and (wanted_action is null or e.action = wanted_action) and (wanted_email is null or e.user_email = wanted_email)
        order by e.transaction_id, e.created_at, e.id limit page_limit + 1
      )
    ) as e
  ) as i;
  lines := coalesce(lines, '{}');
  has_more := cardinality(lines) > page_limit;
  entries := least(cardinality(lines), page_limit);
  items := array_to_string(lines[1 : entries], E',\n');
  select coalesce(transaction_ids[entries], after_transaction), coalesce(times[entries], after_time), coalesce(ids[entries], after_id)
  into last_transaction_id, last_created_at, last_id;
  if has_more or most_examined is null then
    return;
  end if;
  -- The last entry that was examined, if as many were as may be: the next page begins after it.
  if is_of_new then
    select e.transaction_id, e.created_at, e.id into last_transaction_id, last_created_at, last_id
    from audit_log.audit_entries e
    where e.organization_id = list_unseen.organization_id
      and (e.transaction_id, e.created_at, e.id) > (after_transaction, after_time, after_id)
      and e.transaction_id < pg_snapshot_xmax(bound)
    order by e.transaction_id, e.created_at, e.id limit 1 offset most_examined - 1;
    has_more := found;
    return;
  end if;
  select e.transaction_id, e.created_at, e.id into last_transaction_id, last_created_at, last_id from (
    (
      select null::xid8 as transaction_id, e.created_at, e.id from audit_log.audit_entries e
      where is_by_time and e.organization_id = list_unseen.organization_id
        and (e.created_at, e.id) > (after_time, after_id)
        and (e.created_at, e.id) <= (last_time, last_entry_id)
      order by e.created_at, e.id limit 1 offset most_examined - 1
    )
    union all
    (
      select null, e.created_at, e.id from audit_log.audit_entries e
      where is_by_action and e.organization_id = list_unseen.organization_id
        and (e.action, e.created_at, e.id) > (wanted_action, after_time, after_id)
        and (e.action, e.created_at, e.id) <= (wanted_action, last_time, last_entry_id)
      order by e.action, e.created_at, e.id limit 1 offset most_examined - 1
    )
    union all
    (
      select null, e.created_at, e.id from audit_log.audit_entries e
      where is_by_person and e.organization_id = list_unseen.organization_id
        and (e.user_email, e.created_at, e.id) > (wanted_email, after_time, after_id)
        and (e.user_email, e.created_at, e.id) <= (wanted_email, last_time, last_entry_id)
      order by e.user_email, e.created_at, e.id limit 1 offset most_examined - 1
    )
    union all
    (
      select e.* from (select x as transaction_id from unnest(late_transactions) as x order by x) as late
      cross join lateral (
        select e.transaction_id, e.created_at, e.id from audit_log.audit_entries e
        where e.organization_id = list_unseen.organization_id
          and e.transaction_id = late.transaction_id
          and (e.transaction_id, e.created_at, e.id) > (after_transaction, after_time, after_id)
        order by e.transaction_id, e.created_at, e.id limit most_examined
      ) as e
      limit 1 offset most_examined - 1
    )
  ) as e;
  has_more := found;
end $$;
comment on function audit_log_private.list_unseen is 'The next entries of a batch as JSON objects separated by commas and line breaks, how many there are, whether there may be more of them, and the place where to go on then. A batch after the first is read in two parts: late transactions, then new ones (cursor.transaction_id says which). most_examined: the most entries to look at; then a page can be short.';

create function audit_log_private.read_feed(
  organization_id uuid, query audit_log.page_query, out page text, out entries integer, out has_more boolean
)
-- Stable: all its statements see one snapshot, the one that log_snapshot() returns.
language plpgsql stable set search_path = pg_catalog, pg_temp set plan_cache_mode = 'force_generic_plan' set jit = off as $$
declare
  -- Dates as JSON has them: as text they would depend on the session.
  scope constant text := concat_ws(
    ' ', organization_id, to_json(query.start_date) #>> '{}', to_json(query.end_date) #>> '{}', query.action, to_json(query.user_email)
  );
  present constant pg_snapshot := audit_log_private.log_snapshot(organization_id);
  wanted_action constant text := query.action;
  wanted_email constant text := query.user_email;
  range_start constant timestamptz := query.start_date::timestamp at time zone 'UTC';
  range_end constant timestamptz := (query.end_date + 1)::timestamp at time zone 'UTC';
  -- A page of any filter takes less than 50 ms of processor time with this (deno task bench:feed gaps).
  most_examined constant integer := 10000;
  -- No entry is older (created_at_within_api_dates). A cursor cannot hold -infinity.
  first_time constant timestamptz := '0001-01-01 00:00:00+00';
  cursor audit_log_private.feed_cursor;
  is_present boolean := false;
  total bigint;
  batch record;
  items text[] := '{}';
begin
  if query.after <> 'beginning' then
    cursor := audit_log_private.decode_cursor(query.after, scope);
    if cursor is null then
      return;
    end if;
  end if;
  entries := 0;
  total := audit_log_private.count_matching(organization_id, query);
  if total is null then
    return;
  end if;
  loop
    if cursor.bound is null then
      is_present := true;
      cursor.bound := present;
      cursor.created_at := first_time;
      cursor.id := '00000000-0000-0000-0000-000000000000';
      if cursor.seen is null then
        cursor.created_at := range_start - interval '1 microsecond';
        cursor.id := 'ffffffff-ffff-ffff-ffff-ffffffffffff';
        select e.created_at, e.id into cursor.last_created_at, cursor.last_id from (
          (
            select e.created_at, e.id from audit_log.audit_entries e
            where wanted_action is null and wanted_email is null
              and e.organization_id = read_feed.organization_id
              and e.created_at >= range_start and e.created_at < range_end
            order by e.created_at desc, e.id desc limit 1
          )
          union all
          (
            select e.created_at, e.id from audit_log.audit_entries e
            where wanted_action is not null and wanted_email is null
              and e.organization_id = read_feed.organization_id
              and (e.action, e.created_at) >= (wanted_action, range_start)
              and (e.action, e.created_at) < (wanted_action, range_end)
            order by e.action desc, e.created_at desc, e.id desc limit 1
          )
          union all
          (
            select e.created_at, e.id from audit_log.audit_entries e
            where wanted_email is not null
              and e.organization_id = read_feed.organization_id
              and (e.user_email, e.created_at) >= (wanted_email, range_start)
              and (e.user_email, e.created_at) < (wanted_email, range_end)
            order by e.user_email desc, e.created_at desc, e.id desc limit 1
          )
        ) as e;
      else
        cursor.transaction_id := pg_snapshot_xmin(cursor.seen);
      end if;
    end if;
    batch := audit_log_private.list_unseen(organization_id, query, cursor, most_examined);
    items := items || nullif(batch.items, '');
    entries := entries + batch.entries;
    query.page_limit := query.page_limit - batch.entries;
    if batch.has_more then
      select batch.last_transaction_id, batch.last_created_at, batch.last_id
      into cursor.transaction_id, cursor.created_at, cursor.id;
      exit;
    elsif cursor.transaction_id < pg_snapshot_xmax(cursor.seen) then
      -- The late transactions are read. Now the new ones.
      select pg_snapshot_xmax(cursor.seen), first_time, '00000000-0000-0000-0000-000000000000'
      into cursor.transaction_id, cursor.created_at, cursor.id;
      continue;
    end if;
    -- The batch is read to its end. What was committed meanwhile is the next batch.
    cursor := (cursor.bound, null, null, null, null, null, null)::audit_log_private.feed_cursor;
    exit when is_present;
  end loop;
  has_more := cursor.bound is not null;
  if has_more and cursor.seen is not null then
    -- Only the late transactions that are not read yet, to keep the cursor short.
    cursor.seen := concat_ws(':', pg_snapshot_xmin(cursor.seen), pg_snapshot_xmax(cursor.seen), (
      select coalesce(string_agg(x::text, ',' order by x), '') from pg_snapshot_xip(cursor.seen) as x
      where x >= cursor.transaction_id and pg_visible_in_snapshot(x, cursor.bound)
    ));
  end if;
  page := format(
    E'{"total":%s,"next":"%s","has_more":%s,"items":\n[%s]\n}', total,
    audit_log_private.encode_cursor(cursor, scope), to_json(has_more), array_to_string(items, E',\n')
  );
end $$;
comment on function audit_log_private.read_feed is 'The entries that a cursor (query.after) has not seen: {total, next, has_more, items} as in read_page, with the next cursor and whether it leads to more now, and how many entries these are. A page examines a bounded number of entries, so it may be short, or empty, and have more. All is null if after is not a cursor of this organization, range, action, person and database; only the page is null if the query names a person who has more than 1,000,000 entries in these days.';
