-- The feed delivers every entry exactly once and at once, late ones too.
--
-- A cursor holds what its reader has seen, as a Postgres snapshot, and each entry the transaction that wrote it.
-- New entries are those that the old snapshot could not see and the present one can. (docs/design.md has what else
-- was tried.) What is new at one moment is a batch, read in pages: the cursor also holds the snapshot that bounds
-- the batch, and the last place read in it. The first batch may be the whole log: it is read by time, through the
-- indexes of pages. Later ones are read by transaction, through the feed's own index. So every page begins with a
-- seek.
--
-- Transaction numbers would tell a reader how much other tenants write. So a cursor is encrypted, then
-- authenticated: AES-256 in CBC mode with a random IV, then HMAC-SHA-256 cut to 128 bits. They are valid in one
-- database, cluster and timeline only. So the authenticated text includes these, and the request's organization,
-- days, action and person: a cursor is refused anywhere else.

create table audit_log_private.feed_keys (
  is_only boolean primary key default true check (is_only),
  encryption_key bytea not null default extensions.gen_random_bytes(32),
  authentication_key bytea not null default extensions.gen_random_bytes(32),
  system_identifier bigint not null default (pg_control_system()).system_identifier,
  epoch bigint not null default audit_log_private.log_epoch()
);
comment on table audit_log_private.feed_keys is 'One row: the keys that encrypt and authenticate cursors, and the database cluster they belong to.';
comment on column audit_log_private.feed_keys.system_identifier is 'If it differs from the server''s, or epoch from log_epoch(), the log was restored: run adopt_restored_log().';
insert into audit_log_private.feed_keys default values;

create type audit_log_private.feed_cursor as (
  -- What the reader had seen before this batch; null in the first batch.
  seen pg_snapshot,
  -- The end of this batch; null between two batches.
  bound pg_snapshot,
  -- The last place read in this batch. The first batch has no transaction here.
  transaction_id xid8,
  created_at timestamptz,
  id uuid,
  -- The last place in the first batch.
  last_created_at timestamptz,
  last_id uuid
);

-- Ascending numbers as their distances: in one byte below 128 (0…), in two below 16384 (10…), in three below 2097152
-- (110…), else in nine. So 2,000 transactions in progress, thousands apart, take 4,000 bytes.
create function audit_log_private.pack_snapshot(snapshot pg_snapshot) returns bytea
language plpgsql immutable strict set search_path = pg_catalog, pg_temp as $$
begin
  return decode((
    select string_agg(
      case
        when distance < 128 then lpad(to_hex(distance), 2, '0')
        when distance < 16384 then to_hex(distance | x'8000'::bigint)
        when distance < 2097152 then to_hex(distance | x'c00000'::bigint)
        else 'e0' || lpad(to_hex(distance), 16, '0')
      end, '' order by number
    )
    from (
      select number, x::text::bigint - lag(x::text::bigint, 1, 0::bigint) over (order by number) as distance
      from (
        select 0 as number, pg_snapshot_xmin(snapshot) as x
        union all
        select row_number() over (order by x), x from pg_snapshot_xip(snapshot) as x
        union all
        select 2147483647, pg_snapshot_xmax(snapshot)
      ) as numbers
    ) as distances
  ), 'hex');
end $$;
comment on function audit_log_private.pack_snapshot is 'A snapshot in few bytes.';

create function audit_log_private.unpack_snapshot(packed bytea) returns pg_snapshot
language plpgsql immutable strict set search_path = pg_catalog, pg_temp as $$
declare
  numbers constant text[] := array(
    select sum(
      ('x' || lpad(case left(code, 1) when 'e' then substr(code, 3) else code end, 16, '0'))::bit(64)::bigint
      - case length(code) when 4 then x'8000'::bigint when 6 then x'c00000'::bigint else 0 end
    ) over (order by place)
    from (
      select m[1] as code, place
      from regexp_matches(encode(packed, 'hex'), '[0-7].|[89ab].{3}|[cd].{5}|e.{17}', 'g') with ordinality as list (m, place)
    ) as codes
    order by place
  );
begin
  return concat_ws(
    ':', numbers[1], numbers[cardinality(numbers)], array_to_string(numbers[2 : cardinality(numbers) - 1], ',')
  )::pg_snapshot;
end $$;
comment on function audit_log_private.unpack_snapshot is 'The snapshot that pack_snapshot packed.';

create function audit_log_private.snapshot_in_epoch(epoch bigint) returns pg_snapshot
-- Stable, so that the snapshot is that of the calling query.
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  present constant pg_snapshot := pg_current_snapshot();
  own constant xid8 := pg_current_xact_id_if_assigned();
  base constant bigint := epoch << 40;
begin
  if base = 0 and (own is null or not pg_visible_in_snapshot(own, present)) then
    return present;
  end if;
  return (
    select format(
      '%s:%s:%s', base + pg_snapshot_xmin(present)::text::bigint, base + pg_snapshot_xmax(present)::text::bigint,
      string_agg((base + x::text::bigint)::text, ',' order by x)
    )
    from (
      select pg_snapshot_xip(present) as x
      union
      -- A transaction's own snapshot does not list itself as in progress. But it may still write or roll back.
      select own where pg_visible_in_snapshot(own, present)
    ) as in_progress
  )::pg_snapshot;
end $$;
comment on function audit_log_private.snapshot_in_epoch is 'The present snapshot in the numbers of audit_entries.transaction_id, with the calling transaction as in progress.';

create function audit_log_private.log_snapshot(organization_id uuid) returns pg_snapshot
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return audit_log_private.snapshot_in_epoch(audit_log_private.log_epoch());
end $$;
comment on function audit_log_private.log_snapshot is 'snapshot_in_epoch, in the epoch of an organization (docs/scaling.md). On one Postgres all have the same.';

create function audit_log_private.feed_key(scope text, out encryption_key bytea, out authentication_key bytea, out authenticated bytea)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  server constant bigint := (pg_control_system()).system_identifier;
begin
  select k.encryption_key, k.authentication_key into encryption_key, authentication_key
  from audit_log_private.feed_keys k where k.system_identifier = server and k.epoch = audit_log_private.log_epoch();
  if not found then
    raise exception 'this database has been restored: run select audit_log_private.adopt_restored_log()' using errcode = 'object_not_in_prerequisite_state';
  end if;
  -- The timeline is the first eight digits of the current WAL file's name.
  authenticated := convert_to(
    concat_ws(
      ' ', server, (select d.oid from pg_database d where d.datname = current_database()),
      left(pg_walfile_name(pg_current_wal_insert_lsn()), 8), scope, ''
    ), 'UTF8'
  );
end $$;
comment on function audit_log_private.feed_key is 'The keys of cursors, and the text that is authenticated with each cursor. Raises 55000 on a standby, and in a restored database until adopt_restored_log() has run.';

create function audit_log_private.encode_cursor(cursor audit_log_private.feed_cursor, scope text) returns text
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  key constant record := audit_log_private.feed_key(scope);
  iv constant bytea := extensions.gen_random_bytes(16);
  format constant text := 'YYYY-MM-DD HH24:MI:SS.US';
  seen constant bytea := coalesce(audit_log_private.pack_snapshot(cursor.seen), '');
  snapshots constant bytea := seen || coalesce(audit_log_private.pack_snapshot(cursor.bound), '');
  fields constant text := array_to_string(
    array[
      length(seen)::text, cursor.transaction_id::text,
      to_char(cursor.created_at at time zone 'UTC', format), cursor.id::text,
      to_char(cursor.last_created_at at time zone 'UTC', format), cursor.last_id::text, ''
    ], ';', ''
  );
  used constant integer := length(fields) + 1 + length(snapshots);
  message bytea;
begin
  message := iv || extensions.encrypt_iv(
    -- In steps of 256, because the length would tell how many transactions of others are in progress.
    convert_to(rpad(fields, length(fields) + 256 - used % 256), 'UTF8') || '\x00'::bytea || snapshots,
    key.encryption_key, iv, 'aes-cbc/pad:pkcs'
  );
  message := message || substring(extensions.hmac(key.authenticated || message, key.authentication_key, 'sha256') for 16);
  return translate(encode(message, 'base64'), E'+/=\n', '-_');
end $$;
comment on function audit_log_private.encode_cursor is 'Encrypts a cursor for its reader, as base64url. scope: the request it is valid for.';

create function audit_log_private.decode_cursor(encoded text, scope text) returns audit_log_private.feed_cursor
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  key constant record := audit_log_private.feed_key(scope);
  message bytea;
  body bytea;
  zero integer;
  fields text[];
  snapshots bytea;
begin
  if encoded !~ '^[A-Za-z0-9_-]+$' or length(encoded) not between 64 and 12000 or length(encoded) % 4 = 1 then
    return null;
  end if;
  message := decode(rpad(translate(encoded, '-_', '+/'), (length(encoded) + 3) / 4 * 4, '='), 'base64');
  body := substring(message for length(message) - 16);
  if substring(extensions.hmac(key.authenticated || body, key.authentication_key, 'sha256') for 16)
      <> substring(message from length(message) - 15)
    -- The last base64 character has unused bits, which would allow several spellings of one cursor.
    or translate(encode(message, 'base64'), E'+/=\n', '-_') <> encoded
  then
    return null;
  end if;
  body := extensions.decrypt_iv(substring(body from 17), key.encryption_key, substring(body for 16), 'aes-cbc/pad:pkcs');
  zero := position('\x00'::bytea in body);
  fields := string_to_array(convert_from(substring(body for zero - 1), 'UTF8'), ';', '');
  snapshots := substring(body from zero + 1);
  return (
    audit_log_private.unpack_snapshot(nullif(substring(snapshots for fields[1]::integer), '')),
    audit_log_private.unpack_snapshot(nullif(substring(snapshots from fields[1]::integer + 1), '')),
    fields[2]::xid8, fields[3]::timestamp at time zone 'UTC', fields[4]::uuid,
    fields[5]::timestamp at time zone 'UTC', fields[6]::uuid
  )::audit_log_private.feed_cursor;
end $$;
comment on function audit_log_private.decode_cursor is 'Decrypts a cursor; null when it does not belong to this scope and this database.';

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
    union all
    (
      select e.transaction_id, e.created_at, e.id from audit_log.audit_entries e
      where is_of_new and e.organization_id = list_unseen.organization_id
        and (e.transaction_id, e.created_at, e.id) > (after_transaction, after_time, after_id)
        and e.transaction_id < pg_snapshot_xmax(bound)
      order by e.transaction_id, e.created_at, e.id limit 1 offset most_examined - 1
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
  -- A page of any filter takes less than 50 ms with this (bench/README.md).
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
comment on function audit_log_private.read_feed is 'The entries that a cursor (after: beginning, or next of the answer before) has not seen: {total, next, has_more, items} as in read_page, with the next cursor and whether it leads to more now, and how many entries these are. A page examines a bounded number of entries, so it may be short, or empty, and have more. Nulls when after is no cursor of this organization, range, action, person and database; a null page when count_matching is.';

create function audit_log_private.adopt_restored_log() returns bigint
-- A restored database has no statistics, with which the planner might read the whole log for each organization.
language plpgsql volatile set search_path = pg_catalog, pg_temp
  set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off as $$
declare
  epoch bigint;
begin
  -- Waits for writers, and keeps them waiting until the commit: none may still write in the old epoch.
  lock table audit_log.audit_entries in share row exclusive mode;
  -- Of the rows too, because they may have been restored without the function.
  select 1 + greatest(
    audit_log_private.log_epoch(),
    (select max(k.epoch) from audit_log_private.feed_keys k),
    max(last_entry.transaction_id::text::bigint >> 40),
    max(pg_snapshot_xmax((audit_log_private.latest_seal(o.id)).snapshot)::text::bigint >> 40)
  )
  into strict epoch
  from audit_log.organizations o
  left join lateral (
    select e.transaction_id from audit_log.audit_entries e
    where e.organization_id = o.id
    order by e.transaction_id desc limit 1
  ) as last_entry on true;
  execute format(
    'create or replace function audit_log_private.log_epoch() returns bigint language plpgsql stable as %L',
    format('begin return %s; end', epoch)
  );
  -- Without settings, which would cost writers more than the function: all its names are qualified.
  execute format(
    'create or replace function audit_log_private.entry_number() returns xid8 language plpgsql as %L',
    format(
      'begin return pg_catalog.int8pl(%s, pg_catalog.pg_current_xact_id()::pg_catalog.text::pg_catalog.int8)::pg_catalog.text::pg_catalog.xid8; end',
      epoch << 40
    )
  );
  delete from audit_log_private.feed_keys;
  insert into audit_log_private.feed_keys default values;
  return epoch;
end $$;
comment on function audit_log_private.adopt_restored_log is 'The last step of every restore. Run it as the owner, before writers and readers are let in. Transaction numbers of another cluster mean nothing here, so it begins a new epoch: every entry of before is older than all that will be written, and every cursor of before is refused. Rewrites nothing. Returns the number of the epoch.';
