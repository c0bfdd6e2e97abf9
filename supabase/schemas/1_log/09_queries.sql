-- What readers ask. What they get from read_page, read_feed, read_seals and read_actions is a reading.

create function audit_log_private.check_days(start_date date, end_date date) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  if (start_date >= '0001-01-01' and start_date <= end_date and end_date <= '9999-12-31') is not true then
    raise exception 'start_date and end_date must be two days of the years 1 to 9999, in this order'
      using errcode = 'invalid_parameter_value';
  end if;
end $$;
comment on function audit_log_private.check_days is 'Raises 22023 unless two days are a range.';

create type audit_log.page_query as (
  -- UTC days, both included.
  start_date date,
  end_date date,
  -- Times within these days, until not included. From with_defaults on, the whole range: nothing reads the days.
  since timestamptz,
  until timestamptz,
  -- Null for all. At most 20.
  actions text[],
  -- Without regard to capitals.
  user_email text,
  page_limit integer,
  page_offset bigint,
  newest_first boolean,
  -- beginning, or the cursor of the last answer. With it, page_offset and newest_first do not apply.
  after text,
  -- A value in data, at its top level: exactly this text.
  object text,
  -- What identifies one entry. Only for the resource entry, where nothing else applies.
  created_at timestamptz,
  id uuid
);
comment on type audit_log.page_query is
  'A query: everything that a reader asks for, passed as one value from the query string to the tables. Make it '
  'by names, never as a row: later versions add fields.';

create type audit_log_private.reading as (
  -- accepted; or why nothing was read, and then nothing else is given: invalid_query (the action is not in the
  -- catalogue), invalid_cursor, too_many (to count).
  decision text,
  total bigint,
  -- Those of the page: the text of a JSON array, which nothing parses. A line break is between two items only.
  items text,
  -- How many entries these are, for the usage of a key.
  entries integer,
  -- Of the feed: the next cursor, and whether it leads to more now.
  cursor text,
  has_more boolean,
  -- Of seals: the altered days.
  altered json
);
comment on type audit_log_private.reading is 'What a read function answers. A null field is not given.';

create function audit_log_private.with_defaults(query audit_log.page_query) returns audit_log.page_query
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  query.since := greatest(query.since, coalesce(query.start_date, '0001-01-01')::timestamp at time zone 'UTC');
  query.until := least(query.until, (coalesce(query.end_date, '9999-12-31') + 1)::timestamp at time zone 'UTC');
  query.actions := nullif(query.actions, '{}');
  query.user_email := lower(query.user_email collate "C");
  query.page_limit := coalesce(query.page_limit, 100);
  query.page_offset := coalesce(query.page_offset, 0);
  return (query); -- "return query" is another statement.
end $$;
comment on function audit_log_private.with_defaults is
  'A query as read functions take it: with the defaults of the API, the whole range in since and until, small letters.';

create function audit_log_private.read_actions() returns audit_log_private.reading
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  read audit_log_private.reading;
begin
  read.decision := 'accepted';
  read.entries := 0;
  select count(*), '[' || coalesce(string_agg(
    json_build_object(
      'code', a.code, 'description', a.description, 'required', a.required,
      'target', coalesce(a.target, a.required[1]), 'target_name', a.target_name,
      'deprecated_at', audit_log_private.api_time(a.deprecated_at)
    )::text, E',\n' order by a.position
  ), '') || ']'
  into strict read.total, read.items
  from audit_log.actions a;
  return read;
end $$;
comment on function audit_log_private.read_actions is 'The catalogue of actions.';

create function audit_log_private.checked_query(asked json) returns audit_log.page_query
-- As JSON: the Data API would read the times of a page_query without a zone in the zone of the session.
language plpgsql stable set search_path = pg_catalog, pg_temp set timezone = 'UTC' set datestyle = 'ISO, MDY' as $$
declare
  -- A string is what the Data API makes of a parameter in an address.
  given constant json := case json_typeof(asked) when 'string' then (asked #>> '{}')::json else asked end;
  known constant text[] := array(
    select a.attname from pg_attribute a
    where a.attrelid = 'audit_log.page_query'::regclass and a.attname not in ('created_at', 'id')
    order by a.attnum
  );
  unknown text;
  query audit_log.page_query;
begin
  if json_typeof(given) = 'object' then
    select string_agg(to_json(k)::text, ', ') into unknown from json_object_keys(given) as k where k <> all (known);
  end if;
  -- A misspelt one would give unfiltered entries silently.
  if unknown is not null then
    raise exception 'a query has no field %, only %', unknown, array_to_string(known, ', ')
      using errcode = 'invalid_parameter_value';
  end if;
  query := json_populate_record(null::audit_log.page_query, given);
  perform audit_log_private.check_days(query.start_date, query.end_date);
  query.newest_first := coalesce(query.newest_first, true);
  query := audit_log_private.with_defaults(query);
  if query.since >= query.until or query.page_limit not between 1 and 1000 or query.page_offset < 0 then
    raise exception 'since must be before until, page_limit from 1 to 1000, and page_offset not below 0'
      using errcode = 'invalid_parameter_value';
  end if;
  return (query); -- As in with_defaults.
end $$;
comment on function audit_log_private.checked_query is
  'The query that a person gives, by default 100 entries, newest first. Raises 22023 if it is not valid.';

create function audit_log_private.require_accepted(decision text) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  case decision
    when 'accepted' then null;
    when 'invalid_query' then
      raise exception 'the filter names an action that does not exist, one action twice, or more than 20'
        using errcode = 'invalid_parameter_value', hint = 'list_actions returns the actions that exist.';
    when 'invalid_cursor' then
      raise exception 'the place to go on from is of another log or query, or from before a restore: begin again'
        using errcode = 'AL003', hint = 'Give after=beginning.';
    when 'too_many' then
      raise exception
        'more than 1,000,000 entries of a person, or 25,000 to be searched, are too many: choose a shorter time'
        using errcode = 'AL004';
  end case;
end $$;
comment on function audit_log_private.require_accepted is 'Raises what a person is told if a reading was not accepted.';
