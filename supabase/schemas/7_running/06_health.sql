-- What an operator must know, and what a monitoring system counts (docs/operating.md).

create function audit_log_private.disabled_triggers() returns json
language plpgsql stable set search_path = pg_catalog, pg_temp set quote_all_identifiers = off as $$
begin
  return (
    select coalesce(json_agg(format('%s on %s', s.name, c.oid::regclass) order by c.oid, s.name), '[]')
    from (
      -- A rule comes before the triggers, and may leave them nothing. We have none.
      select r.rulename as name, r.ev_class as relation from pg_rewrite r where r.rulename <> '_RETURN'
      union all
      select n.name, g.relation
      from (values
        ('audit_log.actions'::regclass, '{refuse_change,change_action}'::name[]),
        ('audit_log.audit_entries', '{refuse_change,check_and_count_inserted,count_deleted,note_removed}'),
        ('audit_log.organization_members', '{call_person_left}'),
        ('audit_log.organizations', '{add_key_actions,log_settings}'),
        ('audit_log_private.seals', '{refuse_change,check_seal,refuse_deletion}')
      ) as g (relation, names)
      cross join unnest(g.names) as n (name)
      left join pg_trigger t on t.tgname = n.name and t.tgrelid = g.relation
      where (t.tgenabled in ('O', 'A')) is not true
    ) as s
    join pg_class c on c.oid = s.relation
    where c.relnamespace in ('audit_log'::regnamespace, 'audit_log_private'::regnamespace)
  );
end $$;
comment on function audit_log_private.disabled_triggers is 'Triggers that are disabled or gone, and rules on tables.';

create function audit_log_private.unused_organizations() returns json
-- The settings are those of metrics.
language plpgsql stable set search_path = pg_catalog, pg_temp
  set plan_cache_mode = 'force_custom_plan' set enable_seqscan = off set enable_hashjoin = off
  set enable_mergejoin = off set jit = off as $$
declare
  -- A log that stays unused is named for a week.
  week_ago constant timestamptz := clock_timestamp() - interval '7 days';
begin
  return (
    select coalesce(json_agg(u order by u.created_at desc), '[]') from (
      select o.id as organization_id, o.platform_id, o.created_at from audit_log.organizations o
      where o.created_at between week_ago - interval '7 days' and week_ago and o.closed_at is null
        and exists (select from audit_log.audit_entries e where e.organization_id = o.id)
        and not exists (
          select from audit_log_private.log_reads r
          where r.organization_id = o.id and r.day >= (week_ago at time zone 'UTC')::date and r.last_at > week_ago
        )
        and not exists (
          select from audit_log_private.rate_limits r where r.organization_id = o.id and r.last_at > week_ago
        )
        and not audit_log_private.has_more_readers(o.id)
      order by o.created_at desc limit 100
    ) as u
  );
end $$;
comment on function audit_log_private.unused_organizations is
  'For health(): at most 100 organizations that began 7 to 14 days ago, and that nobody has read for seven days. An '
  'id that the platform wrote by mistake is among them.';

create function audit_log_private.findings() returns jsonb
language plpgsql stable set search_path = pg_catalog, pg_temp
  set timezone = 'UTC' set quote_all_identifiers = off as $$
begin
  return json_build_object(
    'last_upkeep_at', (select u.last_run_at from audit_log_private.upkeep_state u),
    'unsealed_since', (select min(d.queued_at) from audit_log_private.days_to_seal d),
    'altered_days', (
      select coalesce(json_agg(json_build_object(
        'organization_id', d.organization_id, 'day', d.day, 'altered_at', d.altered_at
      ) order by d.organization_id, d.day), '[]')
      from audit_log_private.sealed_days d where d.altered_at is not null
    ),
    'miscounted_days', (
      select coalesce(json_agg(json_build_object(
        'organization_id', d.organization_id, 'day', d.day, 'difference', d.miscounted
      ) order by d.organization_id, d.day), '[]')
      from audit_log_private.sealed_days d where d.miscounted <> 0
    ),
    'reduced_days', (
      select coalesce(json_agg(json_build_object(
        'organization_id', d.organization_id, 'day', d.day, 'reduced_at', d.reduced_at
      ) order by d.organization_id, d.day), '[]')
      from audit_log_private.sealed_days d where d.reduced_at is not null
    ),
    'late_days', (
      select coalesce(json_agg(l order by l.organization_id), '[]')
      from (
        select
          d.organization_id, count(*) as days, min(d.day) as first_day, max(d.day) as last_day,
          max(d.sealed_after) as sealed_after
        from audit_log_private.sealed_days d where d.sealed_after is not null
        group by d.organization_id
      ) as l
    ),
    'is_adopted', ((pg_control_system()).system_identifier, audit_log_private.log_epoch()) in (
      select k.system_identifier, k.epoch from audit_log_private.cursor_keys k
    ),
    'disabled_triggers', audit_log_private.disabled_triggers(),
    'keys_whose_owner_left', (
      select coalesce(json_agg(json_build_object(
        'organization_id', k.organization_id, 'api_key_id', k.id, 'name', k.name, 'owner_left_at', k.owner_left_at
      ) order by k.owner_left_at), '[]')
      from audit_log_private.api_keys k
      where k.owner_left_at is not null and audit_log_private.is_live(k.revoked_at, k.expires_at)
    ),
    'unused_organizations', audit_log_private.unused_organizations(),
    'logging_problems', (select coalesce(json_agg(p), '[]') from audit_log_private.logging_problems() as p),
    'logging_failures', (
      select coalesce(json_agg(f order by f.logged), '[]')
      from (
        select f.logged, sum(f.failures) as failures, max(f.last_at) as last_at,
          (array_agg(f.last_error order by f.last_at desc))[1] as last_error
        from audit_log_private.logging_failures f group by f.logged
      ) as f
    )
  )::jsonb || audit_log_private.more_findings();
end $$;
comment on function audit_log_private.findings is 'What health() has, without its alerts.';

create function audit_log_private.alerts(findings jsonb) returns table (severity text, field text, is_on boolean)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  clock constant timestamptz := clock_timestamp();
  upkeep_at constant timestamptz := (findings ->> 'last_upkeep_at')::timestamptz;
begin
  return query
    values
      -- The next run may end five hours later in the night than the last one. If the clock was wrong then, a time to
      -- come would hide that the upkeep has stopped.
      ('page', 'last_upkeep_at',
        (upkeep_at between clock - interval '30 hours' and clock + interval '1 hour') is not true),
      ('page', 'unsealed_since', ((findings ->> 'unsealed_since')::timestamptz < clock - interval '30 hours') is true),
      ('page', 'altered_days', exists (
        select from jsonb_array_elements(findings -> 'altered_days') as d
        where (d ->> 'altered_at')::timestamptz > clock - interval '7 days'
      )),
      ('page', 'is_adopted', findings ->> 'is_adopted' <> 'true');
  return query
    select 'page', f, findings ->> f <> '[]'
    from unnest('{miscounted_days,disabled_triggers,logging_failures}'::text[]) as f
    union all
    select 'workday', f, findings ->> f <> '[]'
    from unnest('{altered_days,reduced_days,keys_whose_owner_left,unused_organizations}'::text[]) as f
    union all
    -- Entries of nobody are in the log: that can wait.
    select s.severity, 'logging_problems', exists (
      select from jsonb_array_elements(findings -> 'logging_problems') as p
      where p ->> 'problem' like 'the secret key wrote %' = (s.severity = 'workday')
    )
    from (values ('page'), ('workday')) as s (severity)
    union all
    select m.severity, m.field, findings ->> m.field not in ('[]', 'false') from audit_log_private.more_alerts() as m;
end $$;
comment on function audit_log_private.alerts is 'Which findings wake somebody (page), or wait for the next workday.';

create function audit_log_private.health() returns json
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  findings constant jsonb := audit_log_private.findings();
begin
  return (
    select json_object_agg(h.key, h.value) from (
      select a.severity as key, coalesce(json_agg(a.field) filter (where a.is_on), '[]') as value
      from audit_log_private.alerts(findings) as a group by a.severity
      union all
      select f.key, f.value::json from jsonb_each(findings) as f
    ) as h
  );
end $$;
comment on function audit_log_private.health is 'What an operator must know (docs/operating.md).';

create function audit_log_private.metrics() returns table (name text, help text, labels jsonb, value double precision)
-- Planned for each call and without scans: from the organizations to the few rows of each, never through the log.
language plpgsql stable set search_path = pg_catalog, pg_temp
  set plan_cache_mode = 'force_custom_plan' set enable_seqscan = off set enable_hashjoin = off
  set enable_mergejoin = off set jit = off as $$
declare
  clock constant timestamptz := clock_timestamp();
  today constant date := clock at time zone 'UTC';
  findings constant jsonb := audit_log_private.findings();
  of_requests constant text := 'Requests with a live key since midnight (UTC). 401 has no key to count with; 429 '
    'counts from the first counted request of the day.';
begin
  return query
    select
      m.name, m.help, m.labels || jsonb_build_object('organization_id', o.platform_id, 'api_key_id', k.id),
      case when m.name = 'audit_log_requests' and r.day is distinct from today then 0 else m.value end::double precision
    from audit_log.organizations o
    join audit_log_private.api_keys k on k.organization_id = o.id
    join audit_log_private.rate_limits r on r.organization_id = k.organization_id and r.api_key_id = k.id
    cross join lateral (
      values
        ('audit_log_requests', of_requests, jsonb '{"status": "200"}', r.requests - r.invalid_requests),
        ('audit_log_requests', of_requests, '{"status": "400"}', r.invalid_requests),
        ('audit_log_requests', of_requests, '{"status": "429"}', r.refused_requests),
        (
          'audit_log_follower_lag_seconds',
          'Of keys that follow the log: since they last caught up, or were created.', '{}',
          case when r.read_mode = 'feed' then extract(epoch from clock - coalesce(r.caught_up_at, k.created_at)) end
        )
    ) as m (name, help, labels, value)
    where audit_log_private.is_live(k.revoked_at, k.expires_at) and m.value is not null;
  return query select m.name, m.help, m.labels, m.value from audit_log_private.more_metrics() as m;
  -- What was rolled back counts, too.
  return query
    select
      'audit_log_updated_rows_total', 'Changes to rows of an append-only table that got past the triggers, since the '
      'last crash, restore or pg_stat_reset().',
      jsonb_build_object('table', s.relname), s.n_tup_upd::double precision
    from pg_stat_user_tables s
    where s.relid in ('audit_log.audit_entries'::regclass, 'audit_log_private.seals'::regclass);
  return query
    select
      'audit_log_alert', '1 if somebody must be woken for a field of health() (severity page), or look at it on a '
      'workday.', jsonb_build_object('severity', a.severity, 'field', a.field), a.is_on::integer::double precision
    from audit_log_private.alerts(findings) as a;
  return query
    select
      m.name, m.help, jsonb '{}',
      coalesce(extract(epoch from clock - (findings ->> m.field)::timestamptz), 0)::double precision
    from (values
      ('audit_log_upkeep_age_seconds', 'last_upkeep_at', 'How long ago the upkeep finished.'),
      ('audit_log_unsealed_age_seconds', 'unsealed_since', 'How long a finished day has waited for its seal, or 0.')
    ) as m (name, field, help);
end $$;
comment on function audit_log_private.metrics is 'What metrics_text() prints, at the same cost on a log of any size.';

create function audit_log_private.metrics_text() returns text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  return (
    with metrics as materialized (
      select
        m.*,
        -- By status, so that a few refused requests are not lost among many that were answered.
        row_number() over (partition by m.name, m.labels -> 'status' order by m.value desc, m.labels) as place
      from audit_log_private.metrics() as m
    )
    select string_agg(lines.text, '' order by lines.name)
    from (
      select
        m.name,
        format(
          E'# HELP %s %s\n# TYPE %s %s\n', m.name, max(m.help), m.name,
          case when m.name like '%total' then 'counter' else 'gauge' end
        ) || string_agg(
          format(E'%s{%s} %s\n', m.name, m.labels, m.value), '' order by m.labels
        ) as text
      from (
        select
          m.name, m.help, m.value,
          (
            -- Not as JSON: Prometheus knows three escapes only, and refuses all lines for another.
            select string_agg(format('%s="%s"', l.key,
              replace(replace(replace(l.value, E'\\', E'\\\\'), '"', E'\\"'), E'\n', E'\\n')), ',' order by l.key)
            from jsonb_each_text(m.labels) as l
          ) as labels
        from (
          select m.name, m.help, m.labels, m.value from metrics as m where m.place <= 1000
          union all
          select
            'audit_log_series_left_out', 'Of each metric, and of each status, the 1,000 series with the highest values '
            'are here. This is how many are not.', '{}', count(*)
          from metrics as m where m.place > 1000
        ) as m
      ) as m
      group by m.name
    ) as lines
  );
end $$;
comment on function audit_log_private.metrics_text is 'The metrics for Prometheus; at most 1,000 series of each.';
