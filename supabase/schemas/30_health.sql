-- What an operator must know, and what a monitoring system counts (docs/operating.md).

create function audit_log_private.health() returns json
language plpgsql stable set search_path = pg_catalog, pg_temp
  set timezone = 'UTC' set quote_all_identifiers = off as $$
declare
  today constant date := clock_timestamp() at time zone 'UTC';
  streams constant json := audit_log_private.troubled_streams();
begin
  return json_build_object(
    'last_upkeep_at', (select u.last_run_at from audit_log_private.upkeep_state u),
    'oldest_unsealed_day', least(
      (select min(c.day) from audit_log_private.entry_counts c where c.writer_pid <> 0 and c.day < today),
      (select min(d.day) from audit_log_private.days_to_seal d)
    ),
    'altered_days', (
      select coalesce(json_agg(json_build_object(
        'organization_id', d.organization_id, 'day', d.day, 'altered_at', d.altered_at
      ) order by d.organization_id, d.day), '[]')
      from audit_log_private.sealed_days d where d.altered_at is not null
    ),
    'miscounted_days', (
      select coalesce(json_agg(json_build_object(
        'organization_id', d.organization_id, 'day', d.day, 'entries', d.miscounted
      ) order by d.organization_id, d.day), '[]')
      from audit_log_private.sealed_days d where d.miscounted <> 0
    ),
    'is_adopted', ((pg_control_system()).system_identifier, audit_log_private.log_epoch()) in (
      select k.system_identifier, k.epoch from audit_log_private.cursor_keys k
    ),
    'replaced_functions', audit_log_private.replaced_functions(),
    'disabled_triggers', (
      select coalesce(json_agg(format('%s on %s', t.tgname, c.oid::regclass) order by c.oid, t.tgname), '[]')
      from pg_trigger t join pg_class c on c.oid = t.tgrelid
      where c.relnamespace in ('audit_log'::regnamespace, 'audit_log_private'::regnamespace)
        and not t.tgisinternal and t.tgenabled not in ('O', 'A')
    ),
    'keys_of_leavers', (
      select coalesce(json_agg(json_build_object(
        'organization_id', k.organization_id, 'api_key_id', k.id, 'name', k.name, 'maker_left_at', k.maker_left_at
      ) order by k.maker_left_at), '[]')
      from audit_log_private.api_keys k
      where k.maker_left_at is not null and audit_log_private.is_active(k.revoked_at, k.expires_at)
    ),
    'streams', streams,
    'holds', (
      select coalesce(json_agg(json_build_object(
        'organization_id', h.organization_id, 'reason', h.reason, 'held_by', h.held_by, 'held_at', h.held_at
      ) order by h.held_at), '[]')
      from audit_log_private.holds h where h.released_at is null
    ),
    'setting_changes', (
      select coalesce(json_agg(json_build_object(
        'at', c.at, 'who', c.who, 'what', c.what, 'organization_id', c.organization_id,
        -- The texts of functions are long.
        'before', case when c.what not like 'function %' then c.before end,
        'after', case when c.what not like 'function %' then c.after end
      ) order by c.id desc), '[]')
      from audit_log_private.setting_changes c
      where c.at > clock_timestamp() - interval '7 days'
        -- As they were installed.
        and (c.what like 'function %' and c.before is null) is not true
    ),
    'gone_organizations', (
      select coalesce(json_agg(json_build_object(
        'organization_id', o.id, 'former_external_id', o.former_external_id, 'name', o.name, 'gone_at', o.gone_at
      ) order by o.gone_at), '[]')
      from audit_log.organizations o where o.gone_at is not null and o.leaving_at is null
    ),
    'logging_problems', (select coalesce(json_agg(p), '[]') from audit_log_private.logging_problems() as p),
    'logging_failures', (
      select coalesce(json_agg(f order by f.logged), '[]')
      from (
        select f.logged, sum(f.failures) as failures, max(f.last_at) as last_at,
          (array_agg(f.last_error order by f.last_at desc))[1] as last_error
        from audit_log_private.logging_failures f group by f.logged
      ) as f
    )
  );
end $$;
comment on function audit_log_private.health is
  'What an operator must know (docs/operating.md): when the upkeep last finished; the oldest finished day without '
  'an up-to-date seal; altered days, and days with wrong counts, as last checked; whether a restored database was '
  'adopted; functions that somebody has replaced, and triggers that are disabled; API keys whose maker has left; '
  'streams that fail, are not served, or lose entries to retention within 7 days, and those of leavers; '
  'holds that stand; settings that were changed in the last 7 days; organizations whose row the platform has deleted; '
  'why actions of logged tables are missing from the log, or will be.';

create function audit_log_private.metrics() returns table (name text, labels jsonb, value double precision)
-- Planned for each call and without scans: from the organizations to the few rows of each, never through the log.
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
  set plan_cache_mode = 'force_custom_plan' set enable_seqscan = off set enable_hashjoin = off
  set enable_mergejoin = off set jit = off as $$
declare
  clock constant timestamptz := clock_timestamp();
  today constant date := clock at time zone 'UTC';
  health constant json := audit_log_private.health();
  key record;
begin
  for key in
    select
      jsonb_build_object('organization_id', coalesce(o.external_id, o.id::text), 'api_key_id', k.id) as labels,
      r.day is not distinct from today as is_of_today,
      array[r.requests - r.invalid_requests, r.invalid_requests, r.refused_requests] as requests,
      case when r.read_mode = 'feed' then extract(epoch from clock - coalesce(r.caught_up_at, k.created_at)) end as lag
    from audit_log.organizations o
    join audit_log_private.api_keys k on k.organization_id = o.id
    join audit_log_private.rate_limits r on r.organization_id = k.organization_id and r.api_key_id = k.id
    where audit_log_private.is_active(k.revoked_at, k.expires_at)
  loop
    name := 'audit_log_requests';
    for n in 1 .. 3 loop
      labels := key.labels || jsonb_build_object('status', (array['200', '400', '429'])[n]);
      value := case when key.is_of_today then key.requests[n] else 0 end;
      return next;
    end loop;
    if key.lag is not null then
      select 'audit_log_follower_lag_seconds', key.labels, key.lag into name, labels, value;
      return next;
    end if;
  end loop;
  return query select l.name, l.labels, l.value from audit_log_private.stream_lags() as l;
  return query
    select
      'audit_log_entries',
      jsonb_build_object('organization_id', coalesce(o.external_id, o.id::text), 'day', c.day),
      sum(c.entries)::double precision
    from audit_log.organizations o
    join audit_log_private.entry_counts c on c.organization_id = o.id and c.day > today - 7 and c.day <= today
    group by o.id, o.external_id, c.day;
  return query
    select
      'audit_log_size_bytes', jsonb_build_object('table', c.relname), pg_total_relation_size(c.oid)::double precision
    from pg_class c
    where c.relnamespace in ('audit_log'::regnamespace, 'audit_log_private'::regnamespace) and c.relkind = 'r';
  -- What was rolled back counts, too.
  return query
    select 'audit_log_updated_rows', jsonb_build_object('table', s.relname), s.n_tup_upd::double precision
    from pg_stat_user_tables s
    where s.relid in (
      'audit_log.audit_entries'::regclass, 'audit_log_private.seals'::regclass,
      'audit_log_private.setting_changes'::regclass
    );
  return query
    select 'audit_log_' || m.name, jsonb '{}', m.value
    from (
      values
        (
          'upkeep_age_seconds',
          coalesce(extract(epoch from clock - (health ->> 'last_upkeep_at')::timestamptz), 'infinity')::double precision
        ),
        ('unsealed_days', today - least(today, (health ->> 'oldest_unsealed_day')::date)),
        ('altered_days', json_array_length(health -> 'altered_days')),
        ('miscounted_days', json_array_length(health -> 'miscounted_days')),
        ('holds', json_array_length(health -> 'holds')),
        ('logging_problems', json_array_length(health -> 'logging_problems')),
        (
          'logging_failures',
          (
            select coalesce(sum((f ->> 'failures')::bigint), 0)
            from json_array_elements(health -> 'logging_failures') as f
          )
        )
    ) as m (name, value);
end $$;
comment on function audit_log_private.metrics is
  'Numbers for a monitoring system, and what they are about: ids, never an entry or an address '
  '(docs/operating.md). Cheap on a log of any size.';
