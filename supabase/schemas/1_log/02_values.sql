-- Makes values of the platform fit the rules of entries.

-- Without settings and as expressions, so that Postgres inlines them: they are called for each value.
create function audit_log_private.cut(value text, length integer) returns text
language sql immutable
return case when pg_catalog.char_length(value) > length then pg_catalog."left"(value, length - 1) || '…' else value end;
comment on function audit_log_private.cut is 'A text of at most so many characters. One that was cut ends with …';

create function audit_log_private.valid_email(value text) returns text
language sql immutable
return case when value like '%_@_%' and pg_catalog.char_length(value) <= 320 then value end;
comment on function audit_log_private.valid_email is 'An address that entries may have, or null.';

create function audit_log_private.name_or_unnamed(value text) returns text
language sql immutable
return case when value ~ E'\\S' then audit_log_private.cut(value, 200) else 'unnamed' end;
comment on function audit_log_private.name_or_unnamed is 'A name that entries may have.';

create function audit_log_private.json_value(value text, kind text) returns jsonb
language sql stable
return case
  when kind = 'json' and value in ('true', 'false') then pg_catalog.to_jsonb(value::boolean)
  -- JSON has no negative zero, and writes 1e+300 with all its zeros.
  when (kind = 'number' or kind = 'json' and pg_catalog.jsonb_typeof(value::jsonb) = 'number')
    and value <> '-0' and pg_catalog.char_length(value::numeric::text) <= 100
    then pg_catalog.to_jsonb(value::numeric)
  else pg_catalog.to_jsonb(
    audit_log_private.cut(case when kind = 'json' then value::jsonb #>> '{}' else value end, 100)
  )
end;
comment on function audit_log_private.json_value is 'A boolean, a number, or a string of at most 100 characters.';

create function audit_log_private.cut_strings(value jsonb, length integer) returns jsonb
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  return case jsonb_typeof(value)
    when 'string' then to_jsonb(audit_log_private.cut(value #>> '{}', length))
    -- Any text that is cut is a string.
    when 'number' then case
      when char_length(value::text) > length then to_jsonb(audit_log_private.cut(value::text, length)) else value
    end
    when 'array' then (
      select jsonb_agg(audit_log_private.cut_strings(e.value, length) order by e.n)
      from jsonb_array_elements(value) with ordinality as e (value, n)
    )
    when 'object' then (
      select jsonb_object_agg(e.name, audit_log_private.cut_strings(e.value, length))
      from jsonb_each(value) as e (name, value)
    )
    else value
  end;
end $$;
comment on function audit_log_private.cut_strings is 'A value with all its strings and numbers cut to a length.';

create function audit_log_private.fitted(data jsonb) returns jsonb
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  for halvings in 1 .. 7 loop
    exit when octet_length(data::text) <= 4096;
    -- Without the caller: nobody can hide by writing long values.
    data := audit_log_private.cut_strings(data - 'caller', 100 >> halvings)
      || jsonb_strip_nulls(jsonb_build_object('caller', data -> 'caller'));
  end loop;
  -- A caller of control characters. An address and a UUID are shorter than 40.
  return case when octet_length(data::text) <= 4096 then data else audit_log_private.cut_strings(data, 40) end;
end $$;
comment on function audit_log_private.fitted is 'data within the rule data_is_small: values are cut, the caller last.';

create function audit_log_private.refuse_change() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  raise exception '% of % is refused: %', tg_op, tg_table_name, tg_argv[0] using errcode = 'insufficient_privilege';
end $$;
comment on function audit_log_private.refuse_change is 'Refuses a statement, to the owner, too. Its argument says why.';

create function audit_log_private.utc_time(given text) returns timestamptz
language plpgsql stable set search_path = pg_catalog, pg_temp set timezone = 'UTC' set datestyle = 'ISO, MDY' as $$
begin
  return given::timestamptz;
end $$;
comment on function audit_log_private.utc_time is 'A time that somebody gives: without a zone, UTC.';

create function audit_log_private.api_time(moment timestamptz) returns text
language sql stable
return pg_catalog.to_char(moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
comment on function audit_log_private.api_time is 'A time as answers show it: UTC, to the millisecond.';
