-- The last step of every restore (docs/restoring.md).

create function audit_log_private.adopt_restored_log() returns bigint
-- Without statistics, which a restored database lacks, the planner might read the whole log for each organization.
language plpgsql volatile set search_path = pg_catalog, pg_temp
  set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off as $$
declare
  epoch bigint;
begin
  -- Waits for writers, and keeps them waiting until the commit: none may still write in the old epoch.
  lock table audit_log.audit_entries in share row exclusive mode;
  -- The rows may have a higher epoch than log_epoch(), if they were restored without that function.
  select 1 + greatest(
    audit_log_private.log_epoch(),
    (select max(k.epoch) from audit_log_private.cursor_keys k),
    (select max(r.removed_in::text::bigint >> 40) from audit_log_private.removed_entries r),
    max(last_entry.transaction_id::text::bigint >> 40),
    max(pg_snapshot_xmax((audit_log_private.chain_end(o.id)).snapshot)::text::bigint >> 40)
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
    'create or replace function audit_log_private.transaction_number() returns xid8 language plpgsql as %L',
    format(
      'begin return pg_catalog.int8pl(%s, pg_catalog.pg_current_xact_id()::pg_catalog.text::pg_catalog.int8)'
      '::pg_catalog.text::pg_catalog.xid8; end',
      epoch << 40
    )
  );
  delete from audit_log_private.cursor_keys where true;
  insert into audit_log_private.cursor_keys default values;
  return epoch;
end $$;
comment on function audit_log_private.adopt_restored_log is
  'The last step of every restore (docs/restoring.md): begins a new epoch, in which existing entries count as older '
  'and existing cursors are refused. Returns its number.';
