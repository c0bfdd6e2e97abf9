-- A cursor of the feed holds a Postgres snapshot: what its reader has seen (docs/design.md says why). What is new at
-- one moment is a batch, read in pages: the cursor also holds the snapshot that bounds the batch, and the last place
-- read in it. The first batch may be the whole log: it is read by time, through the indexes of pages. Later ones are
-- read by transaction, through the feed's own index. So every page begins with a seek.
--
-- Transaction numbers would tell a reader how much other organizations write. So a cursor is encrypted (AES-256-CBC),
-- then authenticated (HMAC-SHA-256, cut to 128 bits), together with the database, cluster and timeline in which its
-- numbers mean something, and with the request's organization, times and filters: it is refused anywhere else.

create table audit_log_private.cursor_keys (
  is_only boolean primary key default true check (is_only),
  encryption_key bytea not null default extensions.gen_random_bytes(32),
  authentication_key bytea not null default extensions.gen_random_bytes(32),
  -- If it differs from the server's, or epoch from log_epoch(), run adopt_restored_log().
  system_identifier bigint not null default (pg_control_system()).system_identifier,
  epoch bigint not null default audit_log_private.log_epoch()
);
comment on table audit_log_private.cursor_keys is 'One row: the keys of cursors, and the database they belong to.';

insert into audit_log_private.cursor_keys default values;

create type audit_log_private.feed_cursor as (
  -- What the reader had seen before this batch; null in the first batch.
  seen pg_snapshot,
  -- The end of this batch; null between two batches.
  bound pg_snapshot,
  -- The last entry examined in this batch; or, without a time and an id, the transaction to begin with.
  transaction_id xid8,
  created_at timestamptz,
  id uuid
);
comment on type audit_log_private.feed_cursor is 'The place of a reader in the feed.';

-- Ascending numbers as the distances between them: in epoch 1, the numbers themselves have 13 digits.
create function audit_log_private.pack_snapshot(snapshot pg_snapshot) returns text
language plpgsql immutable strict set search_path = pg_catalog, pg_temp as $$
begin
  return (
    select string_agg(distance::text, ',' order by place)
    from (
      select n.place, n.number - lag(n.number, 1, 0::bigint) over (order by n.place) as distance
      from unnest(
        pg_snapshot_xmin(snapshot)::text::bigint
          || array(select x::text::bigint from pg_snapshot_xip(snapshot) as x order by x)
          || pg_snapshot_xmax(snapshot)::text::bigint
      ) with ordinality as n (number, place)
    ) as distances
  );
end $$;
comment on function audit_log_private.pack_snapshot is 'A snapshot as a short text.';

create function audit_log_private.unpack_snapshot(packed text) returns pg_snapshot
language plpgsql immutable strict set search_path = pg_catalog, pg_temp as $$
declare
  numbers constant text[] := array(
    select sum(distance::bigint) over (order by place)
    from string_to_table(packed, ',') with ordinality as distances (distance, place) order by place
  );
begin
  return concat_ws(
    ':', numbers[1], numbers[cardinality(numbers)], array_to_string(numbers[2 : cardinality(numbers) - 1], ',')
  )::pg_snapshot;
end $$;
comment on function audit_log_private.unpack_snapshot is 'The snapshot that pack_snapshot packed.';

create function audit_log_private.log_snapshot() returns pg_snapshot
-- Stable, so that the snapshot is that of the calling query.
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  present constant pg_snapshot := pg_current_snapshot();
  own constant xid8 := pg_current_xact_id_if_assigned();
  base constant bigint := audit_log_private.log_epoch() << 40;
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
comment on function audit_log_private.log_snapshot is 'The present snapshot; the calling transaction is in progress.';

create type audit_log_private.cursor_key as (
  encryption_key bytea,
  authentication_key bytea,
  -- What a cursor is valid for, authenticated with it.
  authenticated bytea
);
comment on type audit_log_private.cursor_key is 'What encrypts and authenticates the cursors of one scope.';

create function audit_log_private.cursor_key(scope text) returns audit_log_private.cursor_key
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  server constant bigint := (pg_control_system()).system_identifier;
  secrets audit_log_private.cursor_key;
begin
  select k.encryption_key, k.authentication_key into secrets.encryption_key, secrets.authentication_key
  from audit_log_private.cursor_keys k where k.system_identifier = server and k.epoch = audit_log_private.log_epoch();
  if not found then
    raise exception 'this database has been restored: run select audit_log_private.adopt_restored_log()'
      using errcode = 'object_not_in_prerequisite_state';
  end if;
  -- The timeline is the first eight digits of the current WAL file's name.
  secrets.authenticated := convert_to(
    concat_ws(
      ' ', server, (select d.oid from pg_database d where d.datname = current_database()),
      left(pg_walfile_name(pg_current_wal_insert_lsn()), 8), scope, ''
    ), 'UTF8'
  );
  return secrets;
end $$;
comment on function audit_log_private.cursor_key is
  'The key of the cursors of a request. Raises 55000 on a standby, and in a restored database until it is adopted.';

create function audit_log_private.encode_cursor(
  cursor audit_log_private.feed_cursor, secrets audit_log_private.cursor_key
) returns text
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  iv constant bytea := extensions.gen_random_bytes(16);
  fields constant text := array_to_string(
    array[
      audit_log_private.pack_snapshot(cursor.seen), audit_log_private.pack_snapshot(cursor.bound),
      cursor.transaction_id::text,
      to_char(cursor.created_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US'), cursor.id::text, ''
    ], ';', ''
  );
  message bytea;
begin
  message := iv || extensions.encrypt_iv(
    -- In steps of 256, because the length would tell how many transactions of others are in progress.
    convert_to(rpad(fields, length(fields) + 256 - length(fields) % 256), 'UTF8'),
    secrets.encryption_key, iv, 'aes-cbc/pad:pkcs'
  );
  message := message
    || substring(extensions.hmac(secrets.authenticated || message, secrets.authentication_key, 'sha256') for 16);
  return translate(encode(message, 'base64'), E'+/=\n', '-_');
end $$;
comment on function audit_log_private.encode_cursor is 'Encrypts a cursor for its reader, as base64url.';

create function audit_log_private.decode_cursor(
  encoded text, secrets audit_log_private.cursor_key
) returns audit_log_private.feed_cursor
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  message bytea;
  body bytea;
  fields text[];
begin
  if encoded !~ '^[A-Za-z0-9_-]+$' or length(encoded) not between 64 and 12000 or length(encoded) % 4 = 1 then
    return null;
  end if;
  message := decode(rpad(translate(encoded, '-_', '+/'), (length(encoded) + 3) / 4 * 4, '='), 'base64');
  body := substring(message for length(message) - 16);
  if substring(extensions.hmac(secrets.authenticated || body, secrets.authentication_key, 'sha256') for 16)
      <> substring(message from length(message) - 15)
    -- The last base64 character has unused bits, which would allow several spellings of one cursor.
    or translate(encode(message, 'base64'), E'+/=\n', '-_') <> encoded
  then
    return null;
  end if;
  body := extensions.decrypt_iv(
    substring(body from 17), secrets.encryption_key, substring(body for 16), 'aes-cbc/pad:pkcs'
  );
  fields := string_to_array(convert_from(body, 'UTF8'), ';', '');
  return (
    audit_log_private.unpack_snapshot(fields[1]), audit_log_private.unpack_snapshot(fields[2]),
    fields[3]::xid8, fields[4]::timestamp at time zone 'UTC', fields[5]::uuid
  )::audit_log_private.feed_cursor;
end $$;
comment on function audit_log_private.decode_cursor is 'A cursor; null if it is of another scope or database.';
