-- Written by deno task migration from supabase/schemas: edit the files there.

-- From supabase/schemas/1_log/01_schemas.sql.

-- The two schemas, what must exist before them, and which functions run with their owner's rights.
--
-- Nothing outside these two is changed. The Data API serves `audit_log`: the tables that the platform writes, and
-- functions. It never serves `audit_log_private`, which holds everything else. People call functions and have no
-- access to tables (docs/design.md says why). Row level security, on without policies for people, is a second barrier.
--
-- What people call is a function in `audit_log`, made by serve(), which runs with its caller's rights and only calls
-- its namesake in `audit_log_private`: Supabase's linter warns of functions with their owner's rights in a served
-- schema that signed-in people may call (0029). Only what people and service_role call, as SECURITY.md lists it, runs
-- with its owner's rights (security definer); and besides: check_and_count_entries and add_key_actions, because writers
-- have no access to the counts and the catalogue; the triggers that log_table makes; health and metrics_text, for a
-- monitoring system.

do $$
declare
  taken constant regnamespace := coalesce(to_regnamespace('audit_log'), to_regnamespace('audit_log_private'));
begin
  if taken is not null then
    raise exception
      'This database has a schema % already. Nothing was changed. If the audit log is installed here, remove it '
      'first (docs/install.md, "Leave"); if the schema is yours, rename it.', taken using errcode = 'duplicate_schema';
  end if;
  if to_regprocedure('extensions.gen_random_bytes(integer)') is null then
    raise exception
      'The extension pgcrypto is not in the schema extensions. Nothing was changed. Run: create extension pgcrypto '
      'with schema extensions (or alter extension pgcrypto set schema extensions)'
      using errcode = 'undefined_object';
  end if;
end $$;

create schema audit_log;
comment on schema audit_log is 'Public Audit Log. Served by the Data API.';

revoke all on schema audit_log from public, anon, authenticated, service_role;

create schema audit_log_private;
comment on schema audit_log_private is 'Secrets and helpers of Public Audit Log. Never served by the Data API.';

revoke all on schema audit_log_private from public, anon, authenticated, service_role;

-- From supabase/schemas/1_log/02_values.sql.

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

-- From supabase/schemas/1_log/03_organizations.sql.

-- The organizations of the platform, by the platform's own ids, and who belongs to them.

create function audit_log.organization_uuid(id text) returns uuid
language plpgsql immutable strict parallel safe set search_path = pg_catalog, pg_temp as $$
declare
  hash text;
begin
  if id ~ '^[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$' then
    return id::uuid;
  end if;
  hash := encode(
    -- The namespace, as bytes. It never changes.
    extensions.digest(decode('c735b1b43eea4363ae5b29db1578e845', 'hex') || convert_to(id, 'UTF8'), 'sha1'), 'hex'
  );
  return (
    left(hash, 12) || '5' || substr(hash, 14, 3)
      || translate(substr(hash, 17, 1), '0123456789abcdef', '89ab89ab89ab89ab') || substr(hash, 18, 15)
  )::uuid;
end $$;
comment on function audit_log.organization_uuid is
  'The UUID of an organization in the log: the platform''s id, if that is one in 36 characters with hyphens. Otherwise '
  'it is made from the id (RFC 9562, version 5, in the namespace c735b1b4-3eea-4363-ae5b-29db1578e845).';

create table audit_log.organizations (
  id uuid primary key,
  platform_id text not null unique
    constraint id_has_1_to_200_characters_not_only_blanks
    check (platform_id ~ E'\\S' and char_length(platform_id) <= 200),
  logs_key_events boolean not null default false,
  keep_days integer check (keep_days between 1 and 36500),
  hold_reason text check (hold_reason ~ E'\\S' and char_length(hold_reason) <= 200),
  created_at timestamptz not null default now(),
  closed_at timestamptz,
  leaving_at timestamptz check (leaving_at is null or closed_at is not null),
  -- A UUID is in small letters.
  constraint id_is_made_from_platform_id check (
    id = audit_log.organization_uuid(platform_id) and (platform_id = id::text or lower(platform_id) <> id::text)
  )
);
comment on table audit_log.organizations is 'A customer of the platform, from the first entry or key on.';
comment on column audit_log.organizations.platform_id is 'What the platform, the API and the console call it.';
comment on column audit_log.organizations.logs_key_events is 'Whether the log has what happens to keys and readers.';
comment on column audit_log.organizations.keep_days is 'The upkeep deletes older entries; null: none.';
comment on column audit_log.organizations.hold_reason is 'Why nothing may be deleted; null if it may.';
comment on column audit_log.organizations.closed_at is 'Since when nobody may read or write (close_organization).';
comment on column audit_log.organizations.leaving_at is 'When delete_organization began: it stays closed.';

create function audit_log_private.organization_named(given text) returns uuid
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return (
    select o.id from audit_log.organizations o
    where o.platform_id in (given, lower(given)) and o.id = audit_log.organization_uuid(given)
  );
end $$;
comment on function audit_log_private.organization_named is 'The organization with this id, if the log knows it.';

create function audit_log_private.ensure_organization(platform_id text) returns uuid
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  organization_id uuid := audit_log_private.organization_named(platform_id);
  made constant uuid := audit_log.organization_uuid(platform_id);
begin
  if organization_id is null and made is not null then
    insert into audit_log.organizations (id, platform_id)
    values (made, case when lower(platform_id) = made::text then made::text else platform_id end)
    -- Others may add it at the same time.
    on conflict do nothing;
    organization_id := audit_log_private.organization_named(platform_id);
    if organization_id is null then
      -- A customer who chooses ids could choose the UUID that another's id makes.
      raise exception 'an organization with another id has the same UUID, %', made using errcode = 'unique_violation';
    end if;
  end if;
  return organization_id;
end $$;
comment on function audit_log_private.ensure_organization is
  'The organization with this id, which is added if it is new; null for null. Raises 23505 if another id has the same '
  'UUID, 23514 for an id that is blank or too long.';

create table audit_log.organization_members (
  -- The platform's id. No foreign key: these are the platform's facts, and the log may know nothing yet.
  organization_id text not null check (organization_id ~ E'\\S' and char_length(organization_id) <= 200),
  -- Text, and no foreign key to auth.users: other identity providers have other ids.
  user_id text not null check (user_id <> ''),
  role text not null default 'member' check (role in ('admin', 'auditor', 'member')),
  created_at timestamptz not null default now(),
  organization_name text,
  primary key (organization_id, user_id)
);
comment on table audit_log.organization_members is
  'Who belongs to an organization, unless the functions of `people` were replaced. Admins and auditors may read its '
  'log, and admins manage its keys.';
comment on column audit_log.organization_members.user_id is 'The subject (sub) of the person''s JWT.';
comment on column audit_log.organization_members.organization_name is 'What the console calls it; null: its id.';

create index organization_members_user_id_idx on audit_log.organization_members (user_id);

-- From supabase/schemas/1_log/05_access.sql.

-- Who may do what, by what the functions of `people` say.

create function audit_log_private.refuse_access() returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  raise exception 'you may not do this in an organization with this id, or it has no such API key'
    using errcode = 'insufficient_privilege';
end $$;
comment on function audit_log_private.refuse_access is 'Raises 42501: one message, whether a thing is there or not.';

create function audit_log_private.refuse_conditions() returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  -- PostgREST casts and filters in the statement that calls the function. An error there, such as that of
  -- ?select=pgrst_scalar::int, can show the answer or depend on it, and undoes what the function has recorded. What
  -- callers send is in this text only as the names of columns and types. PostgREST 12 to 14 write each cast and each
  -- filter with these words, and a call without one without them; all set request.method.
  if current_setting('request.method', true) <> '' and current_query() ~* E'\\m(cast *\\(|where\\M)' then
    raise exception 'the Data API cannot cast or filter the answer of this function: leave out select and filters'
      using errcode = 'invalid_parameter_value';
  end if;
end $$;
comment on function audit_log_private.refuse_conditions is 'Raises 22023 if the Data API is to cast or filter answers.';

create function audit_log_private.role_may(role text, for_admins boolean) returns boolean
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  return coalesce(role = 'admin' or role = 'auditor' and not for_admins, false);
end $$;
comment on function audit_log_private.role_may is 'Whether a role may do what is for administrators, or auditors, too.';

create function audit_log_private.require_access(
  organization_id uuid, for_admins boolean, or_server boolean default false
) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  named text[];
  known audit_log.organizations;
begin
  if (audit_log_private.caller()).id is null then
    named := array(
      select o.platform_id from audit_log.organizations o
      where or_server and current_setting('role') = 'service_role' and o.id = require_access.organization_id
    );
  -- The same work for every organization_id, so that its time tells nobody which organizations exist.
  elsif audit_log_private.is_valid_session() then
    named := array(
      select m.id from audit_log_private.my_organizations() m
      where audit_log_private.role_may(m.role, for_admins)
        and audit_log.organization_uuid(m.id) = require_access.organization_id
    );
  end if;
  if coalesce(named, '{}') = '{}' then
    perform audit_log_private.refuse_access();
  end if;
  -- Comes last: an error of the replaced functions must not depend on it. Another id may have the same UUID.
  select o.* into known from audit_log.organizations o where o.id = require_access.organization_id;
  if known.closed_at is not null
    or found and not exists (select from unnest(named) as n where known.platform_id in (n, lower(n)))
  then
    perform audit_log_private.refuse_access();
  end if;
  perform audit_log_private.refuse_conditions();
  return coalesce(known.platform_id, named[1]);
end $$;
comment on function audit_log_private.require_access is
  'Raises 42501 unless the signed-in person is an administrator of the organization, or without for_admins an '
  'auditor, and it is open. With or_server, the secret key may, too. Returns the platform''s id.';

create function audit_log_private.allowed_organization(
  given text, for_admins boolean, out id uuid, out platform_id text
)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  -- The secret key may do everything, so its id must be exactly that of the platform. A person may give the UUID, too.
  id := case current_setting('role')
    when 'service_role' then audit_log_private.organization_named(given) else audit_log.organization_uuid(given)
  end;
  platform_id := audit_log_private.require_access(id, for_admins, or_server => true);
end $$;
comment on function audit_log_private.allowed_organization is 'The organization with this id, if the caller may.';

create function audit_log_private.administered_organization(given text) returns uuid
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  organization uuid;
begin
  if current_setting('role') = 'service_role' then
    perform audit_log_private.ensure_organization(given);
  end if;
  organization := audit_log_private.ensure_organization(
    (audit_log_private.allowed_organization(given, for_admins => true)).platform_id
  );
  -- Locked until the commit: what is made while an organization closes would work again once it is opened.
  perform from audit_log.organizations o where o.id = organization and o.closed_at is null for key share;
  if not found then
    perform audit_log_private.refuse_access();
  end if;
  return organization;
end $$;
comment on function audit_log_private.administered_organization is 'The allowed organization: added, if it is new.';

create function audit_log_private.serve(name text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  namesake pg_proc;
begin
  select p.* into strict namesake from pg_proc p
  where p.pronamespace = 'audit_log_private'::regnamespace and p.proname = serve.name;
  execute format(
    'create function audit_log.%I(%s) returns %s language sql %s set search_path = pg_catalog, pg_temp as %L', name,
    pg_get_function_arguments(namesake.oid), pg_get_function_result(namesake.oid),
    case namesake.provolatile when 's' then 'stable' else 'volatile' end,
    format('select audit_log_private.%I(%s)', name, array_to_string(namesake.proargnames, ', '))
  );
  execute format('comment on function audit_log.%I is %L', name, obj_description(namesake.oid, 'pg_proc'));
end $$;
comment on function audit_log_private.serve is
  'Makes the function in audit_log that people call: with the caller''s rights, it only calls its namesake here.';

-- From supabase/schemas/1_log/06_acting.sql.

-- Who writes or acts: caller() (04_people.sql) is who is signed in, request_context() how the request came.

create function audit_log_private.percent_decoded(value text) returns text
language plpgsql immutable strict set search_path = pg_catalog, pg_temp as $$
begin
  return convert_from((
    select string_agg(
      case when m.part[1] ~ '^%..$' then decode(substr(m.part[1], 2), 'hex') else convert_to(m.part[1], 'UTF8') end,
      '' order by m.n
    )
    from regexp_matches(value, '%[0-9A-Fa-f]{2}|%|[^%]+', 'g') with ordinality as m (part, n)
  ), 'UTF8');
exception
  -- Not UTF-8, or a NUL.
  when data_exception then return value;
end $$;
comment on function audit_log_private.percent_decoded is
  'A text whose characters may be percent-encoded. One that has no such meaning is returned as it is.';

create function audit_log_private.address_of(value text) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
  address constant text := substring(
    btrim(value, E' \t\r\n') from
    '^(?:[[](?=[^]]+[]]))?([0-9a-fA-F]{0,4}:[0-9a-fA-F:]{1,40}(?:[0-9]{1,3}(?:[.][0-9]{1,3}){3})?|'
    '[0-9]{1,3}(?:[.][0-9]{1,3}){3})[]]?(?::[0-9]+)?$'
  );
begin
  perform address::inet;
  return address;
exception when invalid_text_representation then return null;
end $$;
comment on function audit_log_private.address_of is 'An IP address, without its port; null for anything else.';

create function audit_log_private.request_context(out email text, out fallback_email text, out data jsonb)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  me constant record := audit_log_private.caller();
  request constant text := current_setting('request.headers', true);
  headers json;
  caller_field jsonb;
  person text;
  person_id text;
  person_address text;
  person_agent text;
  on_behalf_of jsonb;
  is_one boolean;
begin
  data := '{}';
  fallback_email := coalesce(audit_log_private.valid_email(me.email), 'unknown@invalid');
  -- Never null for a person: the entry would name the person of the row, who may be somebody else.
  email := case when me.id is not null then fallback_email end;
  if me.id is null and (request <> '') is not true then
    return;
  end if;
  caller_field := jsonb_build_object('id', audit_log_private.cut(me.id, 100), 'kind', case
    when me.id is not null then 'person' when current_setting('role') = 'service_role' then 'secret_key' else 'nobody'
  end);
  -- The person of the row is what the writer says, and nobody is believed.
  if caller_field ->> 'kind' = 'nobody' then
    email := 'unknown@invalid';
  end if;
  begin
    headers := nullif(request, '')::json;
    caller_field := caller_field || jsonb_build_object(
      -- As in headers.ts: the address that the nearest proxy reports. Without a proxy, the caller can forge it.
      'address', audit_log_private.address_of(
        coalesce(nullif(headers ->> 'cf-connecting-ip', ''), split_part(headers ->> 'x-forwarded-for', ',', -1))
      ),
      'user_agent', audit_log_private.cut(headers ->> 'user-agent', 200),
      -- The application that writes as the person who authorized it.
      'client_id', case when me.id is not null then audit_log_private.cut(auth.jwt() ->> 'client_id', 100) end
    );
    -- For whom the platform's server writes. Anybody can send these headers: only the secret key is believed.
    if caller_field ->> 'kind' = 'secret_key' and request like '%"x-audit-person%' then
      person := replace(left(headers ->> 'x-audit-person', 2000), '%40', '@');
      person_id := left(headers ->> 'x-audit-person-id', 2000);
      person_address := left(headers ->> 'x-audit-person-address', 2000);
      person_agent := left(headers ->> 'x-audit-person-agent', 2000);
      -- Repeated headers are joined with a comma: nobody knows which one is meant.
      is_one := position(',' in person) = 0;
      -- Seldom, and costs more than all the rest.
      if position('%' in concat(person, person_id, person_address, person_agent)) > 0 then
        person := audit_log_private.percent_decoded(person);
        person_id := audit_log_private.percent_decoded(person_id);
        person_address := audit_log_private.percent_decoded(person_address);
        person_agent := audit_log_private.percent_decoded(person_agent);
      end if;
      -- With a line break, an address would be found by nobody who asks for it.
      person := nullif(btrim(person, E' \t\r\n'), '');
      person_id := nullif(btrim(person_id, E' \t\r\n'), '');
      if coalesce(person, person_id) is not null then
        -- Here, too, never null.
        email := coalesce(case when is_one then audit_log_private.valid_email(person) end, fallback_email);
      end if;
      on_behalf_of := jsonb_strip_nulls(jsonb_build_object(
        'id', audit_log_private.cut(person_id, 100), 'email', audit_log_private.cut(person, 100),
        -- Null if the header came twice.
        'address', audit_log_private.address_of(person_address),
        'user_agent', audit_log_private.cut(nullif(btrim(person_agent, E' \t\r\n'), ''), 200)
      ));
      caller_field := caller_field || jsonb_build_object('on_behalf_of', nullif(on_behalf_of, '{}'));
    end if;
  exception
    -- Anybody can change this setting. That must not make a write fail. The second is raised by deep nesting.
    when data_exception or statement_too_complex then null;
  end;
  data := jsonb_build_object('caller', jsonb_strip_nulls(caller_field));
end $$;
comment on function audit_log_private.request_context is
  'Who writes. email: of the signed-in person, or of the one for whom the secret key says that it writes. '
  'fallback_email: if nothing else tells whose it is. data: within a request, its caller (docs/api.md).';

create function audit_log_private.has_account(person text) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  account constant uuid := substring(person from '^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$')::uuid;
begin
  if to_regclass('auth.users') is null then
    return false;
  end if;
  -- To_jsonb, because not every Auth has this column.
  return exists (select from auth.users u where u.id = account and to_jsonb(u) ->> 'deleted_at' is null);
end $$;
comment on function audit_log_private.has_account is 'Whether this project''s Auth has an account with this id.';

create function audit_log_private.acting_person(out id text, out email text)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  me constant record := audit_log_private.caller();
  request record;
begin
  id := me.id;
  email := me.email;
  if id is null then
    request := audit_log_private.request_context();
    id := request.data #>> '{caller,on_behalf_of,id}';
    -- Of a header that came twice, or was cut, it is nobody's: person_left would not find them.
    if id is not null
      and (id like '%…' or position(',' in current_setting('request.headers')::json ->> 'x-audit-person-id') > 0)
    then
      id := null;
    elsif audit_log_private.has_account(lower(id)) then
      -- In capitals, it would be nobody's, too.
      id := lower(id);
    end if;
    email := coalesce(nullif(request.email, 'unknown@invalid'), email);
  end if;
end $$;
comment on function audit_log_private.acting_person is 'Who is signed in, or for whom the secret key says it acts.';

-- From supabase/schemas/1_log/07_entries.sql.

-- Entries, the catalogue of their actions, and the tables that count them.

-- Only the owner may add an action, so that a typo adds none. A code needs no escaping in JSON or in an address.
create function audit_log_private.required_path(required text[]) returns jsonpath
language sql immutable set search_path = pg_catalog, pg_temp
return (
  -- Only a string starts with "". This is cheaper than .type(), for each entry. Strict: an array of strings does not.
  select coalesce(
    'strict ' || string_agg(format('$.%s starts with ""', to_json(name)), ' && '), '$.type() == "object"'
  )
  from unnest(required) as name where name is not null
)::jsonpath;
comment on function audit_log_private.required_path is 'The condition on data that each of these fields is a string.';

create table audit_log.actions (
  -- audit_log_ is ours: a test of a destination has audit_log_test, and is in no log. Later versions may have others.
  code text collate "C" primary key
    check (code ~ '^[A-Za-z0-9][A-Za-z0-9_.:-]{0,62}$' and not starts_with(code, 'audit_log_')),
  description text not null,
  required text[] not null default '{}' check (array_position(required, null) is null),
  required_path jsonpath generated always as (audit_log_private.required_path(required)) stored,
  target text check (target <> ''),
  target_name text check (target_name <> ''),
  deprecated_at timestamptz,
  -- The order of lists.
  position bigint generated by default as identity,
  constraint target_name_has_target check (target_name is null or coalesce(target, required[1]) is not null)
);
comment on table audit_log.actions is
  'The actions that entries may have. To add one, insert a row; it counts from the commit on.';
comment on column audit_log.actions.required is 'Fields that data of later entries must have, as strings.';
comment on column audit_log.actions.required_path is 'required as a condition on data, for broken_rule.';
comment on column audit_log.actions.target is
  'The field of data that names what the action was done to, as its id; null: the first of required, if it has one.';
comment on column audit_log.actions.target_name is 'The field of data with the name of the target, for people.';
comment on column audit_log.actions.deprecated_at is 'Since when the platform should not write it any more.';

insert into audit_log.actions (code, description, required)
values
  ('agent_added', 'An agent was activated for the organization', '{}'),
  ('conversation_created', 'A user started a new conversation', '{}'),
  (
    'message_created', 'A user sent a message in a conversation',
    '{message_id,conversation_id,agent_id,platform_agent_sid}'
  ),
  ('feedback_given', 'A user gave thumbs up or thumbs down feedback on a message', '{}');

create function audit_log_private.log_epoch() returns bigint
language plpgsql stable as $$
begin
  return 0;
end $$;
comment on function audit_log_private.log_epoch is 'How often the log was restored. adopt_restored_log() replaces it.';

create function audit_log_private.transaction_number() returns xid8
language plpgsql as $$
begin
  return pg_catalog.pg_current_xact_id();
end $$;
comment on function audit_log_private.transaction_number is 'The transaction''s number, plus 2^40 for each epoch.';

create function audit_log_private.new_entry_id() returns uuid
-- Without settings, and plpgsql keeps the plan: an expression as the default would be planned in each statement.
language plpgsql as $$
begin
  -- The time in 4096ths of a millisecond, with the version after the milliseconds. Then the variant, and random bits.
  return (
    pg_catalog.overlay(
      pg_catalog.lpad(
        pg_catalog.to_hex(
          (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) operator(pg_catalog.*) 4096000)::pg_catalog.int8
        ), 15, '0'
      ), '7', 13, 0
    ) operator(pg_catalog.||) pg_catalog.substr(pg_catalog.gen_random_uuid()::pg_catalog.text, 20)
  )::pg_catalog.uuid;
end $$;
comment on function audit_log_private.new_entry_id is
  'A UUIDv7 (RFC 9562, method 3) with the fraction of the millisecond, so that ids keep the order of writing.';

-- The primary key is also the paging index. It starts with the organization, like every key here, so that organizations
-- can be distributed over machines. Pages of one action, or one person, use an index of their own. The last index is
-- the feed's: it finds what was written lately, whatever its time. There is no foreign key to the user or the agent: an
-- entry outlives both.
create table audit_log.audit_entries (
  id uuid not null default audit_log_private.new_entry_id(),
  -- No foreign key, because it would be checked for each row. check_and_count_entries checks each statement.
  organization_id uuid not null,
  -- Rounded to the millisecond, as answers show it. The default is cut off, so that no entry is in the future.
  created_at timestamptz(3) not null default date_trunc('milliseconds', clock_timestamp()),
  -- In the catalogue. No foreign key, because writers would share a lock on each action's row.
  action text collate "C" not null,
  user_email text collate "C" not null,
  agent_name text not null,
  data jsonb not null default '{}',
  -- For the feed. No writer can set it: no role is granted insert on it.
  transaction_id xid8 not null default audit_log_private.transaction_number(),
  primary key (organization_id, created_at, id)
);
comment on table audit_log.audit_entries is
  'The audit log: append-only, written by the platform, deleted only by the owner (retention).';
comment on column audit_log.audit_entries.created_at is 'When the action happened.';
comment on column audit_log.audit_entries.transaction_id is 'By it, feed and seals know what has been seen.';
comment on column audit_log.audit_entries.data is 'Identifiers of what the action was about.';

-- Cached plans do not know the values asked for. With this number, and without statistics of persons, they use the
-- index of the action or the person also where all entries have the same one. It holds from the next analyze on.
alter table audit_log.audit_entries alter column action set (n_distinct = 100);

create index audit_entries_action_idx on audit_log.audit_entries (organization_id, action, created_at, id);

-- A person's address counts without regard to capitals: A to Z, because the column has the collation C, and no update
-- of the operating system can change that. With the action, so that a person's entries are counted within the index,
-- and with the address as it is, without which Postgres does not read the index alone.
create index audit_entries_person_idx on audit_log.audit_entries (organization_id, lower(user_email), created_at, id)
  include (action, user_email);
alter index audit_log.audit_entries_person_idx alter column 2 set statistics 0;

create index audit_entries_transaction_idx on audit_log.audit_entries (organization_id, transaction_id, created_at, id);

create trigger refuse_change
  before update or truncate on audit_log.audit_entries
  for each statement execute function audit_log_private.refuse_change('the log is append-only');

create trigger refuse_change
  before truncate on audit_log.actions
  for each statement execute function audit_log_private.refuse_change(
    'entries have these actions: delete one by one those that no entry has'
  );

-- Format 1 of an entry, frozen: seals are hashes of it, and customers keep files of it. Only a new format, named
-- by the seals that use it, may differ (docs/verifying.md). A new fact about an entry goes into data.
-- Without settings and as an expression, so that Postgres inlines it. The interval is UTC, without a look-up.
create function audit_log_private.entry_line(entry audit_log.audit_entries) returns text
language sql stable
return '{"id":"' || entry.id
  || '","created_at":"'
  || pg_catalog.to_char(entry.created_at at time zone interval '0', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
  || '","action":"' || entry.action
  || '","user_email":' || pg_catalog.to_json(entry.user_email)
  || ',"agent_name":' || pg_catalog.to_json(entry.agent_name)
  || ',"data":' || entry.data
  || '}';
comment on function audit_log_private.entry_line is 'An entry as a line of JSON: the only place where it becomes text.';

-- Counts of entries (docs/design.md says why): one row for each organization, UTC day, action and writing backend. A
-- backend updates only its own rows, so writers never wait for each other and cannot deadlock. No index contains a
-- count. Otherwise updates could not stay within their block (HOT).
--
-- A transaction cannot prune the row versions that its own updates leave, and each update walks past all of them.
-- So after 64 updates it continues in another row, the next part.

create table audit_log_private.entry_counts (
  -- Not on delete cascade: the entries have no foreign key, and an organization with entries has counts.
  organization_id uuid not null references audit_log.organizations,
  day date not null,
  action text collate "C" not null,
  -- The process that counted, or 0 when compacted.
  writer_pid integer not null,
  -- A long transaction continues in part 1 after 64 updates, then in 2, and so on.
  part integer not null default 0,
  entries integer not null,
  -- The same count by the hour of the day: 24 numbers.
  hours integer[] not null,
  -- How many updates it has had since the transaction updated_in began with it: at most 64.
  updates integer not null default 0,
  updated_in xid8 not null default '0',
  -- A copy of that of the action, so that writers need not look it up. Null: they must.
  required_path jsonpath,
  primary key (organization_id, day, action, writer_pid, part)
) with (fillfactor = 50);
comment on table audit_log_private.entry_counts is 'Partial counts, of which the sum counts; one may be negative.';

-- For compact_entry_counts, and for readers, who add what is not compacted yet to the sums of months.
create index entry_counts_partial_idx on audit_log_private.entry_counts (organization_id, day) where writer_pid <> 0;

-- The compacted counts of an organization are spread over many blocks, of which a range of years would read thousands.
create table audit_log_private.monthly_entry_counts (
  organization_id uuid not null references audit_log.organizations on delete cascade,
  month date not null check (extract(day from month) = 1),
  action text collate "C" not null,
  entries bigint not null,
  primary key (organization_id, month, action)
) with (fillfactor = 50);
comment on table audit_log_private.monthly_entry_counts is 'Sums by month of what is compacted in entry_counts.';

-- From supabase/schemas/1_log/08_writing.sql.

-- How many entries are written in one call, how all are checked and counted, and how the catalogue may change.

-- For a platform outside the database. Unlike a plain insert, the call may be repeated when its answer was lost.
create function audit_log.record_entries(entries jsonb) returns integer
-- With its owner's rights: it adds organizations, and caller may read tables of the platform.
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp set timezone = 'UTC' set datestyle = 'ISO, MDY' as $$
declare
  fields constant text[] := '{id,organization,created_at,action,user_email,agent_name,data,target,target_name}'::text[];
  organizations jsonb;
  -- Null unless the secret key says for whom it writes.
  person text;
  caller jsonb;
  written integer;
begin
  -- A misspelt field would be lost silently.
  perform from jsonb_array_elements(entries) as e (entry)
  where e.entry - fields <> '{}';
  if found or entries is null then
    raise exception 'entries is an array of objects with the fields %', array_to_string(fields, ', ')
      using errcode = 'invalid_parameter_value';
  end if;
  -- Each once, and in one order, so that two calls that add the same ones cannot deadlock.
  select jsonb_object_agg(e.organization, audit_log_private.ensure_organization(e.organization)) into organizations
  from (
    select distinct r.organization from jsonb_to_recordset(entries) as r (organization text)
    where r.organization is not null order by 1
  ) as e;
  select r.email, r.data into person, caller from audit_log_private.request_context() as r
  where r.data #> '{caller,on_behalf_of}' is not null;
  insert into audit_log.audit_entries (id, organization_id, created_at, action, user_email, agent_name, data)
  select
    coalesce(e.id, audit_log_private.new_entry_id()),
    (organizations ->> e.organization)::uuid,
    -- A repeat is known by id and time: who gives the one must give the other.
    coalesce(e.created_at, case when e.id is null then date_trunc('milliseconds', clock_timestamp()) end),
    e.action, coalesce(e.user_email, person), e.agent_name,
    case
      -- The platform's own caller wins. Where there is no room for it, the entry is worth more.
      when e.user_email is null and octet_length((caller || d.data)::text) <= 4096 then caller || d.data
      else d.data
    end
  from rows from (
    jsonb_to_recordset(entries) as (
      id uuid, organization text, created_at timestamptz(3), action text, user_email text, agent_name text, data jsonb,
      target text, target_name text
    )
  ) with ordinality as e (
    id, organization, created_at, action, user_email, agent_name, data, target, target_name, n
  )
  left join audit_log.actions a on a.code = e.action
  cross join lateral (
    -- Where the catalogue names no field, the value is kept in one of this name.
    select coalesce(e.data, '{}') || jsonb_strip_nulls(jsonb_build_object(
      coalesce(a.target_name, 'target_name'), e.target_name,
      coalesce(a.target, a.required[1], 'target'), e.target
    ))
  ) as d (data)
  -- In one order, so that two calls with the same entries cannot deadlock.
  order by 2, e.created_at, e.id, e.n
  on conflict (organization_id, created_at, id) do nothing;
  get diagnostics written = row_count;
  return written;
end $$;
comment on function audit_log.record_entries is
  'Writes entries, all or none: docs/logging.md has their fields. May be repeated: skips entries that are there. '
  'Returns how many it wrote. For service_role only.';

-- For check_and_count_entries. Postgres would plan check constraints of the table anew in every statement.
create function audit_log_private.broken_rule(
  created_at timestamptz, user_email text, agent_name text, data jsonb, required_path jsonpath
) returns text
language sql immutable
return case
  when required_path is null then 'action_is_in_catalogue'
  -- So that the API, which takes the dates 0001-01-01 to 9999-12-31, reaches every entry.
  when created_at < '0001-01-01 00:00:00+00' or created_at >= '10000-01-01 00:00:00+00'
    then 'created_at_within_api_dates'
  -- A loose check: a log that refuses an unusual address loses an entry.
  when user_email not like '%_@_%' then 'user_email_is_address'
  -- The three sizes keep a page of 1000 entries below 7.5 MB: the Edge Function has little memory.
  when pg_catalog.char_length(user_email) > 320 then 'user_email_is_short'
  when pg_catalog.char_length(agent_name) > 200 then 'agent_name_is_short'
  when pg_catalog.octet_length(data::text) > 4096 then 'data_is_small'
  when pg_catalog.jsonb_typeof(data) <> 'object' then 'data_is_object'
  -- Common JSON parsers refuse a whole page in which one value is nested too deeply.
  when data @? 'strict $.**{33}' then 'data_is_shallow'
  -- Null: a field is missing or no string.
  when (data @@ required_path) is not true then 'data_has_required'
end;
comment on function audit_log_private.broken_rule is
  'The first rule that an entry breaks, or null. required_path: of its action; null if the catalogue lacks that.';

create function audit_log_private.require_writable(
  organization_id uuid, action text, broken_rule text, broken audit_log.audit_entries
) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  which constant text :=
    format('The entry has the id %s and the time %s', broken.id, audit_log_private.api_time(broken.created_at));
  organization audit_log.organizations;
begin
  if broken_rule = 'action_is_in_catalogue' then
    raise exception 'an entry has the action "%", which is not in the table audit_log.actions', action
      using errcode = 'foreign_key_violation', constraint = broken_rule, detail = which;
  elsif broken_rule is not null then
    raise exception 'an entry breaks the rule %', concat(broken_rule, (
      select ': ' || array_to_string(a.required, ', ') from audit_log.actions a
      where a.code = action and broken_rule = 'data_has_required'
    ))
      using errcode = 'check_violation', constraint = broken_rule, detail = which;
  end if;
  -- Until the commit, so that an organization is not closed in between.
  select o.* into organization from audit_log.organizations o where o.id = organization_id for key share;
  if not found and substr(organization_id::text, 15, 1) = '5' then
    raise exception 'an entry has the organization %, which the log does not know: a UUID of version 5 may be made '
      'from another id, so add it by that id (ensure_organization)', organization_id
      using errcode = 'foreign_key_violation';
  elsif not found then
    perform audit_log_private.ensure_organization(organization_id::text);
  elsif organization.closed_at is not null then
    raise exception 'an entry has the organization %, which is closed (close_organization)', organization.platform_id
      using errcode = 'foreign_key_violation';
  end if;
end $$;
comment on function audit_log_private.require_writable is
  'Raises 23514 or 23503 for an entry that breaks a rule, or a closed organization. Adds one that is new.';

-- Without settings, so that Postgres inlines it. Whoever changes this setting of a session only makes another part.
create function audit_log_private.current_part() returns integer
language sql stable
return coalesce(
  substring(pg_catalog.current_setting('audit_log_private.part', true) from '^[0-9]{1,9}$')::integer, 0
);
comment on function audit_log_private.current_part is 'The part of the counts that this transaction counts in.';

create function audit_log_private.add_entry_count(
  organization_id uuid, hour timestamp, action text, entries integer, required_path jsonpath
) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  hour_of_day constant integer := extract(hour from hour) + 1;
  current_part integer := audit_log_private.current_part();
begin
  if entries > 0 and current_setting('transaction_isolation') <> 'read committed' then
    -- Its snapshot may be older than a change of the action. Then this raises a serialization failure.
    perform from audit_log.actions a where a.code = add_entry_count.action for share;
  end if;
  loop
    -- No other backend counts in rows with this process id. "on conflict" always finds them.
    insert into audit_log_private.entry_counts as c (
      organization_id, day, action, writer_pid, part, entries, hours, updates, updated_in, required_path
    )
    values (
      organization_id, hour::date, action, pg_backend_pid(), current_part, entries,
      array_fill(0, array[hour_of_day - 1]) || entries || array_fill(0, array[24 - hour_of_day]),
      1, pg_current_xact_id(), required_path
    )
    on conflict on constraint entry_counts_pkey do update
    set entries = c.entries + excluded.entries,
      hours[hour_of_day] = c.hours[hour_of_day] + excluded.entries,
      updates = case when c.updates < 64 then c.updates + 1 else 1 end,
      updated_in = case when c.updates < 64 then c.updated_in else excluded.updated_in end,
      required_path = excluded.required_path
    where c.updates < 64 or c.updated_in <> excluded.updated_in;
    exit when found;
    current_part := current_part + 1;
    perform set_config('audit_log_private.part', current_part::text, true);
  end loop;
end $$;
comment on function audit_log_private.add_entry_count is 'Adds to the counts of an hour in rows of this backend.';

create function audit_log_private.check_and_count_entries() returns trigger
-- enable_seqscan: plans are made while tables are small, and kept.
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
  entry audit_log.audit_entries;
  -- Entries of one organization, action and hour.
  alike record;
  codes text[];
  required_paths jsonpath[];
  this_transaction constant xid8 := pg_current_xact_id();
  current_part constant integer := audit_log_private.current_part();
begin
  if tg_op = 'INSERT' then
    -- Nearly always one entry, of a day and an action that this backend has counted before. If the action was
    -- changed, or the organization closed, required_path is null, which breaks a rule: then all is looked up below.
    begin
      select c.* into strict entry from changed c;
    exception when no_data_found or too_many_rows then null;
    end;
    update audit_log_private.entry_counts c
    set entries = c.entries + 1,
      hours[date_part('hour', entry.created_at at time zone interval '0')::integer + 1] =
        c.hours[date_part('hour', entry.created_at at time zone interval '0')::integer + 1] + 1,
      updates = case when c.updates < 64 then c.updates + 1 else 1 end,
      updated_in = case when c.updates < 64 then c.updated_in else this_transaction end
    where c.organization_id = entry.organization_id and c.day = (entry.created_at at time zone interval '0')::date
      and c.action = entry.action and c.writer_pid = pg_backend_pid() and c.part = current_part
      and (c.updates < 64 or c.updated_in <> this_transaction)
      and audit_log_private.broken_rule(
        entry.created_at, entry.user_email, entry.agent_name, entry.data, c.required_path
      ) is null;
    if found then
      return null;
    end if;
  end if;
  -- The catalogue is small, and needed twice: to check the entries and for new rows of counts.
  select array_agg(a.code), array_agg(a.required_path) into codes, required_paths from audit_log.actions a;
  for alike in
    select
      e.organization_id, e.action, date_trunc('hour', e.created_at at time zone interval '0') as hour,
      count(*)::integer as entries,
      min(case when tg_op = 'INSERT' then
        audit_log_private.broken_rule(e.created_at, e.user_email, e.agent_name, e.data, a.required_path)
      end) as broken_rule
    from changed e left join unnest(codes, required_paths) as a (code, required_path) on a.code = e.action
    group by 1, 2, 3 order by 1 -- So that two that add the same organizations cannot deadlock.
  loop
    if tg_op = 'INSERT' then
      if alike.broken_rule is not null then
        select e.* into entry from changed e
        where e.organization_id = alike.organization_id and e.action = alike.action
          and audit_log_private.broken_rule(
            e.created_at, e.user_email, e.agent_name, e.data, required_paths[array_position(codes, e.action)]
          ) = alike.broken_rule
        limit 1;
      end if;
      perform audit_log_private.require_writable(alike.organization_id, alike.action, alike.broken_rule, entry);
    end if;
    perform audit_log_private.add_entry_count(
      alike.organization_id, alike.hour, alike.action,
      case when tg_op = 'INSERT' then alike.entries else -alike.entries end,
      case when tg_op = 'INSERT' then required_paths[array_position(codes, alike.action)] end
    );
  end loop;
  return null;
end $$;
comment on function audit_log_private.check_and_count_entries is 'Refuses bad entries, and counts the others.';

create trigger check_and_count_inserted
  after insert on audit_log.audit_entries referencing new table as changed
  for each statement execute function audit_log_private.check_and_count_entries();

create trigger count_deleted
  after delete on audit_log.audit_entries referencing old table as changed
  for each statement execute function audit_log_private.check_and_count_entries();

create function audit_log_private.change_action() returns trigger
-- lock_timeout: new writers wait behind it.
language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '2s' as $$
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'an action can only be changed or deleted in read committed'
      using errcode = 'invalid_transaction_state';
  end if;
  -- First the upkeep's lock, so that neither can wait for the other at its next step.
  perform pg_advisory_xact_lock('audit_log_private.entry_counts'::regclass::oid::bigint);
  -- Waits for writers, who may be using it.
  lock table audit_log.audit_entries in share row exclusive mode;
  if tg_op = 'DELETE' or new.code <> old.code then
    perform from audit_log_private.entry_counts c where c.action = old.code;
    if found then
      raise exception 'entries have or had the action %: it cannot be renamed or deleted, only deprecated', old.code
        using errcode = 'foreign_key_violation';
    end if;
  end if;
  -- Makes writers read the action's required fields again.
  update audit_log_private.entry_counts c set required_path = null where c.action = old.code and c.writer_pid <> 0;
  return case when tg_op = 'DELETE' then old else new end;
end $$;
comment on function audit_log_private.change_action is 'Refuses to rename or delete an action that entries have.';

create trigger change_action
  before update of code, required or delete on audit_log.actions
  for each row execute function audit_log_private.change_action();

create function audit_log_private.add_key_actions() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into audit_log.actions (code, description, target, target_name)
  values
    ('api_key_created', 'Somebody created an API key for this log', 'api_key_id', 'name'),
    ('api_key_rotated', 'Somebody replaced an API key with a new one', 'api_key_id', 'name'),
    ('api_key_revoked', 'Somebody revoked an API key', 'api_key_id', 'name')
  on conflict do nothing;
  return null;
end $$;
comment on function audit_log_private.add_key_actions is 'Adds the actions of keys, where an organization logs them.';

create trigger add_key_actions
  after insert or update of logs_key_events on audit_log.organizations
  for each row when (new.logs_key_events) execute function audit_log_private.add_key_actions();

-- From supabase/schemas/1_log/09_queries.sql.

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

-- From supabase/schemas/1_log/10_scan.sql.

-- Entries in the order of time: for pages, for the places where they begin, and for the feed's first batch.

create type audit_log_private.place as (created_at timestamptz, id uuid);
comment on type audit_log_private.place is
  'A place in the order of time: right after the entry with this time and id, whether there is one or not.';

-- Without settings and as an expression, so that Postgres inlines it.
create function audit_log_private.place_before(moment timestamptz) returns audit_log_private.place
language sql stable
return (moment - interval '1 microsecond', 'ffffffff-ffff-ffff-ffff-ffffffffffff')::audit_log_private.place;
comment on function audit_log_private.place_before is 'The place before all entries of a moment.';

-- A branch for each index, of which only one reads, in the order of that index. (A row comparison that begins with an
-- equal column, such as (action, created_at) > (…), would not begin or end the scan at the place.)
--
-- Inlined. If only created_at and id are used, Postgres leaves out the joins and reads the index alone.
create function audit_log_private.scan(
  organization_id uuid, actions text[], person text, place audit_log_private.place, until timestamptz,
  skip bigint, most bigint
)
returns setof audit_log.audit_entries
language sql stable
begin atomic
  (
    select e.* from audit_log.audit_entries e
    where actions is null and person is null and e.organization_id = scan.organization_id
      and (e.created_at, e.id) > ((place).created_at, (place).id) and e.created_at < until
    order by e.created_at, e.id limit most offset skip
  )
  union all
  (
    select e.* from audit_log.audit_entries e
    where cardinality(actions) = 1 and person is null and e.organization_id = scan.organization_id
      and e.action = actions[1] and (e.created_at, e.id) > ((place).created_at, (place).id) and e.created_at < until
    order by e.created_at, e.id limit most offset skip
  )
  union all
  (
    -- Each action is read in its own order, within the index.
    select
      found.id, scan.organization_id, found.created_at,
      e.action, e.user_email, e.agent_name, e.data, e.transaction_id
    from (
      select one.created_at, one.id
      from unnest(actions) as wanted (action)
      cross join lateral (
        select e.created_at, e.id from audit_log.audit_entries e
        where cardinality(actions) > 1 and person is null and e.organization_id = scan.organization_id
          and e.action = wanted.action and (e.created_at, e.id) > ((place).created_at, (place).id)
          and e.created_at < until
        order by e.created_at, e.id limit skip + most
      ) as one
      order by one.created_at, one.id limit most offset skip
    ) as found
    left join audit_log.audit_entries e
      on e.organization_id = scan.organization_id and e.created_at = found.created_at and e.id = found.id
    order by found.created_at, found.id
  )
  union all
  (
    -- Other actions of the person are passed over within the index.
    select
      found.id, scan.organization_id, found.created_at,
      e.action, e.user_email, e.agent_name, e.data, e.transaction_id
    from (
      select e.created_at, e.id from audit_log.audit_entries e
      where person is not null and e.organization_id = scan.organization_id and lower(e.user_email) = person
        and (e.created_at, e.id) > ((place).created_at, (place).id) and e.created_at < until
        and (actions is null or e.action = any (actions))
      order by e.created_at, e.id limit most offset skip
    ) as found
    left join audit_log.audit_entries e
      on e.organization_id = scan.organization_id and e.created_at = found.created_at and e.id = found.id
    order by found.created_at, found.id
  );
end;
comment on function audit_log_private.scan is
  'The entries after a place and before a time, with these actions and of this person (null: all), in the order of '
  'time: without the first ones, at most so many. For rows, call it without hash and merge joins.';

-- The filters that only a row can answer: no index and no counts know them. Postgres inlines both functions.
create function audit_log_private.searches(query audit_log.page_query) returns boolean
language sql immutable
return (query).object is not null;
comment on function audit_log_private.searches is 'Whether a query has a filter that only a row can answer.';

create function audit_log_private.is_found(entry audit_log.audit_entries, query audit_log.page_query) returns boolean
language sql stable
return (query).object is null
  or jsonb_path_query_array((entry).data, '$.*') @> jsonb_build_array((query).object);
comment on function audit_log_private.is_found is 'Whether an entry has what the query searches.';

-- From supabase/schemas/1_log/11_totals.sql.

-- How many entries match a query, by the counts of 1_log/07_entries.sql, which 7_running/05_upkeep.sql looks after.

create type audit_log_private.matching as (
  -- accepted, invalid_query or too_many, as in a reading.
  decision text,
  total bigint,
  -- How many matching entries the day of since has before since, as count_before gives them. Null for a person.
  earlier_in_whole_hours bigint,
  earlier_in_its_hour bigint,
  -- If the query searches, instead: the place after each matching entry.
  places audit_log_private.place[]
);
comment on type audit_log_private.matching is 'What count_matching returns.';

create function audit_log_private.count_matching(organization_id uuid, query audit_log.page_query)
returns audit_log_private.matching
-- The settings are those of read_page.
language plpgsql stable set search_path = pg_catalog, pg_temp
  set plan_cache_mode = 'force_generic_plan' set jit = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  matching audit_log_private.matching;
begin
  if query.actions is not null then
    perform from audit_log.actions a where a.code = any (query.actions) having count(*) = cardinality(query.actions);
    -- actions[1] is null for an array of arrays.
    if not found or query.actions[1] is null or cardinality(query.actions) > 20 then
      matching.decision := 'invalid_query';
      return matching;
    end if;
  end if;
  if query.user_email is not null then
    -- No counts have persons: counted in the index, up to a bound.
    select
      case when count(*) > 1000000 then 'too_many' else 'accepted' end,
      case when count(*) <= 1000000 then
        count(*) filter (where query.actions is null or e.action = any (query.actions))
      end
    into strict matching.decision, matching.total
    from (
      select e.action from audit_log.audit_entries e
      where e.organization_id = count_matching.organization_id and lower(e.user_email) = query.user_email
        -- Postgres takes a column between two values for a narrow range, and might then read all entries of the
        -- organization in it instead of the person's. So since is compared with two columns.
        and (e.created_at, e.id) >= (query.since, '00000000-0000-0000-0000-000000000000') and e.created_at < query.until
      limit 1000001
    ) as e;
  else
    matching := audit_log_private.count_between(organization_id, query.actions, query.since, query.until);
  end if;
  if not audit_log_private.searches(query) or matching.decision <> 'accepted'
    or query.after is not null and matching.total > 25000
  then
    return matching;
  elsif matching.total > 25000 then
    return ('too_many', null, null, null, null)::audit_log_private.matching;
  end if;
  select 'accepted', count(*), null::bigint, null::bigint, array_agg((s.created_at, s.id)::audit_log_private.place)
  into strict matching
  from audit_log_private.scan(
    organization_id, query.actions, query.user_email, audit_log_private.place_before(query.since), query.until, 0, null
  ) as s
  where audit_log_private.is_found(s, query);
  return matching;
end $$;
comment on function audit_log_private.count_matching is
  'How many entries match a query, as with_defaults gives it. too_many: of a person, more than 1,000,000; if '
  'it searches, more than 25,000 are left to look through (with after, these are the total).';

create function audit_log_private.count_between(
  organization_id uuid, actions text[], since timestamptz, until timestamptz
) returns audit_log_private.matching
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  first_day constant date := since at time zone 'UTC';
  end_day constant date := until at time zone 'UTC';
  first_month constant date := date_trunc('month', (first_day - 1)::timestamp) + interval '1 month';
  end_month constant date := date_trunc('month', end_day::timestamp);
  before_since constant record := audit_log_private.count_before(organization_id, actions, since);
  before_until constant record := audit_log_private.count_before(organization_id, actions, until);
  -- From the beginning of since's day to the beginning of until's.
  in_days constant bigint := (
    select coalesce(sum(p.entries), 0)
    from audit_log_private.count_periods(organization_id, actions, first_day, end_day - 1, first_month, end_month) as p
  );
begin
  return (
    'accepted',
    in_days - before_since.in_whole_hours - before_since.in_its_hour
      + before_until.in_whole_hours + before_until.in_its_hour,
    before_since.in_whole_hours, before_since.in_its_hour, null
  )::audit_log_private.matching;
end $$;
comment on function audit_log_private.count_between is 'The entries with these actions (null: all), by the counts.';

create function audit_log_private.count_before(
  organization_id uuid, actions text[], moment timestamptz, out in_whole_hours bigint, out in_its_hour bigint
)
-- The settings are those of read_page.
language plpgsql stable set search_path = pg_catalog, pg_temp
  set plan_cache_mode = 'force_generic_plan' set jit = off as $$
declare
  utc constant timestamp := moment at time zone 'UTC';
  hour constant timestamptz := date_trunc('hour', utc) at time zone 'UTC';
begin
  in_whole_hours := 0;
  in_its_hour := 0;
  if utc > utc::date then
    in_whole_hours := (
      select coalesce(sum((select sum(h) from unnest(c.hours[1 : extract(hour from utc)::integer]) as h)), 0)
      from audit_log_private.entry_counts c
      where c.organization_id = count_before.organization_id and c.day = utc::date
        and (actions is null or c.action = any (actions))
    );
  end if;
  if moment > hour and actions is null then
    in_its_hour := (
      select count(*) from audit_log.audit_entries e
      where e.organization_id = count_before.organization_id and e.created_at >= hour and e.created_at < moment
    );
  elsif moment > hour then
    in_its_hour := (
      select count(*) from unnest(actions) as a (action)
      cross join lateral (
        select from audit_log.audit_entries e
        where e.organization_id = count_before.organization_id and e.action = a.action
          and e.created_at >= hour and e.created_at < moment
      ) as e
    );
  end if;
end $$;
comment on function audit_log_private.count_before is
  'How many entries with these actions (null: all) the UTC day has before a moment: in whole hours, and in its hour.';

-- Without settings, so that Postgres inlines it. Its names are resolved here, once.
create function audit_log_private.count_periods(
  organization_id uuid, actions text[], start_date date, end_date date, first_month date, end_month date
)
returns table (first_day date, last_day date, entries bigint)
language sql stable
begin atomic
  select c.day, c.day, c.entries::bigint from audit_log_private.entry_counts c
  where c.organization_id = count_periods.organization_id
    and c.day >= start_date and c.day < least(first_month, end_date + 1)
    and (actions is null or c.action = any (actions))
  union all
  select c.day, c.day, c.entries::bigint from audit_log_private.entry_counts c
  where c.organization_id = count_periods.organization_id
    and c.day >= greatest(first_month, end_month) and c.day <= end_date
    and (actions is null or c.action = any (actions))
  union all
  select s.month, (s.month + interval '1 month' - interval '1 day')::date, s.entries
  from audit_log_private.monthly_entry_counts s
  where s.organization_id = count_periods.organization_id and s.month >= first_month and s.month < end_month
    and (actions is null or s.action = any (actions))
  union all
  -- What the sums of months do not have yet.
  select date_trunc('month', c.day::timestamp)::date,
    (date_trunc('month', c.day::timestamp) + interval '1 month' - interval '1 day')::date, c.entries::bigint
  from audit_log_private.entry_counts c
  where c.organization_id = count_periods.organization_id and c.day >= first_month and c.day < end_month
    and c.writer_pid <> 0 and (actions is null or c.action = any (actions));
end;
comment on function audit_log_private.count_periods is
  'The entries of a range of days: by month from first_month to before end_month (null: none), and by day before '
  'and after. If no month is whole, first_month is not before end_month. A period can have several rows.';

-- From supabase/schemas/1_log/12_pages.sql.

-- One entry; and a page of the log by its offset, at the same cost wherever it lies. The counts lead from the offset to
-- a month, a day and an hour. Only within the hour, entries are skipped.

create function audit_log_private.line_of(organization_id uuid, created_at timestamptz, id uuid) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return (
    select audit_log_private.entry_line(e) from audit_log.audit_entries e
    where e.organization_id = line_of.organization_id and e.created_at = line_of.created_at and e.id = line_of.id
  );
end $$;
comment on function audit_log_private.line_of is 'The entry with exactly this time and id, as a line, or null.';

create function audit_log_private.read_page(organization_id uuid, query audit_log.page_query)
returns audit_log_private.reading
-- Stable: all its statements see the snapshot of the calling statement, so that total and items belong to the
-- same moment. plpgsql keeps plans between calls; force_generic_plan keeps it from planning anew. A generic plan knows
-- no sizes, so its estimates grow with the log, until Postgres compiles it for each page (jit), or reads the whole
-- table for a join in scan.
language plpgsql stable set search_path = pg_catalog, pg_temp
  set plan_cache_mode = 'force_generic_plan' set jit = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  matching constant audit_log_private.matching := audit_log_private.count_matching(organization_id, query);
  entries constant integer := greatest(0, least(query.page_limit, matching.total - query.page_offset));
  -- How many entries lie before the page, oldest first.
  skip constant bigint :=
    case when query.newest_first then matching.total - query.page_offset - entries else query.page_offset end;
  place audit_log_private.place;
  items text;
  read audit_log_private.reading;
begin
  read.decision := matching.decision;
  if matching.decision <> 'accepted' then
    return read;
  end if;
  read.total := matching.total;
  read.entries := entries;
  read.items := '[]';
  if entries = 0 then
    return read;
  end if;
  place := case
    when audit_log_private.searches(query)
      then coalesce(matching.places[skip], audit_log_private.place_before(query.since))
    when query.user_email is null then audit_log_private.place_of(organization_id, query, matching, skip)
    else audit_log_private.place_of_person(organization_id, query, matching, skip)
  end;
  select string_agg(audit_log_private.entry_line(s), E',\n') into strict items
  from (
    select s.* from audit_log_private.scan(
      organization_id, query.actions, query.user_email, place, query.until, 0,
      case when not audit_log_private.searches(query) then entries end
    ) as s
    where audit_log_private.is_found(s, query) limit entries
  ) as s;
  if query.newest_first then
    select string_agg(l.line, E',\n' order by l.number desc) into strict items
    from string_to_table(items, E',\n') with ordinality as l (line, number);
  end if;
  read.items := '[' || items || ']';
  return read;
end $$;
comment on function audit_log_private.read_page is 'A page of an organization''s entries, by its offset.';

create function audit_log_private.place_of(
  organization_id uuid, query audit_log.page_query, matching audit_log_private.matching, skip bigint
) returns audit_log_private.place
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  first_day constant date := query.since at time zone 'UTC';
  last_day constant date := (query.until - interval '1 microsecond') at time zone 'UTC';
  first_month constant date := date_trunc('month', (first_day - 1)::timestamp) + interval '1 month';
  end_month constant date := date_trunc('month', (last_day + 1)::timestamp);
  -- The counts begin at midnight.
  skip_from_midnight constant bigint := matching.earlier_in_whole_hours + matching.earlier_in_its_hour + skip;
  period constant record := audit_log_private.period_at(
    organization_id, query.actions, first_day, last_day, first_month, end_month, skip_from_midnight
  );
  day constant record := audit_log_private.period_at(
    organization_id, query.actions, period.first_day, period.last_day, null, null, period.left_to_skip
  );
  hour constant record := audit_log_private.hour_at(organization_id, query.actions, day.first_day, day.left_to_skip);
  start constant audit_log_private.place := audit_log_private.place_before(greatest(hour.start_time, query.since));
  skip_in_hour constant bigint :=
    hour.left_to_skip - case when hour.start_time < query.since then matching.earlier_in_its_hour else 0 end;
  place audit_log_private.place;
begin
  if skip_in_hour = 0 then
    return start;
  end if;
  select s.created_at, s.id into strict place
  from audit_log_private.scan(
    organization_id, query.actions, null, start, least(query.until, hour.start_time + interval '1 hour'),
    skip_in_hour - 1, 1
  ) as s;
  return place;
end $$;
comment on function audit_log_private.place_of is 'The place after so many of the entries that match, by the counts.';

create function audit_log_private.period_at(
  organization_id uuid, actions text[], start_date date, end_date date, first_month date, end_month date, skip bigint,
  out first_day date, out last_day date, out left_to_skip bigint
)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  if start_date = end_date then
    first_day := start_date;
    last_day := end_date;
    left_to_skip := skip;
    return;
  end if;
  select p.first_day, p.last_day, skip - (p.running_total - p.entries) into strict first_day, last_day, left_to_skip
  from (
    select
      c.first_day, c.last_day, sum(c.entries) as entries,
      sum(sum(c.entries)) over (order by c.first_day) as running_total
    from audit_log_private.count_periods(organization_id, actions, start_date, end_date, first_month, end_month) as c
    group by c.first_day, c.last_day
  ) as p
  where p.running_total > skip
  order by p.first_day limit 1;
end $$;
comment on function audit_log_private.period_at is
  'The period of count_periods in which one arrives after so many entries, and how many of them to skip within it.';

create function audit_log_private.hour_at(
  organization_id uuid, actions text[], day date, skip bigint, out start_time timestamptz, out left_to_skip bigint
)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  midnight constant timestamptz := day::timestamp at time zone 'UTC';
begin
  if skip = 0 then
    start_time := midnight;
    left_to_skip := 0;
    return;
  end if;
  select midnight + h.hour * interval '1 hour', skip - (h.running_total - h.entries)
  into strict start_time, left_to_skip
  from (
    select
      u.hour - 1 as hour, sum(u.entries) as entries,
      sum(sum(u.entries)::integer) over (order by u.hour) as running_total
    from audit_log_private.entry_counts c cross join unnest(c.hours) with ordinality as u (entries, hour)
    where c.organization_id = hour_at.organization_id and c.day = hour_at.day
      and (actions is null or c.action = any (actions))
    group by u.hour
  ) as h
  where h.running_total > skip
  order by h.hour limit 1;
end $$;
comment on function audit_log_private.hour_at is
  'The hour of a day in which one arrives after so many entries, and how many of them to skip within it.';

create function audit_log_private.place_of_person(
  organization_id uuid, query audit_log.page_query, matching audit_log_private.matching, skip bigint
) returns audit_log_private.place
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  start constant audit_log_private.place := audit_log_private.place_before(query.since);
  place audit_log_private.place;
begin
  if skip = 0 then
    return start;
  elsif skip <= matching.total / 2 then
    select s.created_at, s.id into strict place
    from audit_log_private.scan(
      organization_id, query.actions, query.user_email, start, query.until, skip - 1, 1
    ) as s;
  else
    select e.created_at, e.id into strict place from audit_log.audit_entries e
    where e.organization_id = place_of_person.organization_id and lower(e.user_email) = query.user_email
      and (e.created_at, e.id) > (start.created_at, start.id) and e.created_at < query.until
      and (query.actions is null or e.action = any (query.actions))
    order by e.created_at desc, e.id desc limit 1 offset matching.total - skip;
  end if;
  return place;
end $$;
comment on function audit_log_private.place_of_person is 'What place_of returns for a person, who has no counts.';

-- From supabase/schemas/1_log/13_reads.sql.

-- Who read the log: people, keys and destinations, by day.

create table audit_log_private.log_reads (
  organization_id uuid not null references audit_log.organizations on delete cascade,
  -- Whether a person read, not an API key. In the primary key, because administrators choose the ids of keys.
  is_person boolean not null,
  -- The API key's id, or a hash of user_id: short and of fixed length, so that joins are fast.
  reader_id uuid not null,
  day date not null,
  user_id text,
  -- The administrator's e-mail address at that time.
  user_email text,
  requests integer not null,
  invalid_requests integer not null,
  entries bigint not null,
  first_at timestamptz not null,
  last_at timestamptz not null,
  last_address inet,
  primary key (organization_id, reader_id, day, is_person),
  check (is_person = (user_id is not null))
);
comment on table audit_log_private.log_reads is
  'Who read an organization''s log, by UTC day, for 400 days: people, destinations to which it is sent, and keys '
  '(when their next day begins: their latest is in rate_limits).';

create index log_reads_day_idx on audit_log_private.log_reads (organization_id, day);

create function audit_log_private.add_log_read(
  organization_id uuid, reader_id uuid, day date, requests integer, invalid_requests integer, entries bigint,
  first_at timestamptz, last_at timestamptz,
  last_address inet default null, user_id text default null, user_email text default null
) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  insert into audit_log_private.log_reads as r (
    organization_id, is_person, reader_id, day, user_id, user_email,
    requests, invalid_requests, entries, first_at, last_at, last_address
  )
  select
    o.id, user_id is not null, reader_id, day, user_id, user_email,
    requests, invalid_requests, entries, first_at, last_at, last_address
  -- Where the log knows nothing of an organization yet, nothing can be read.
  from audit_log.organizations o where o.id = add_log_read.organization_id
  on conflict on constraint log_reads_pkey do update
  set requests = r.requests + excluded.requests,
    invalid_requests = r.invalid_requests + excluded.invalid_requests,
    entries = r.entries + excluded.entries,
    last_at = excluded.last_at,
    last_address = excluded.last_address;
end $$;
comment on function audit_log_private.add_log_read is 'Adds reads to those of the same reader and day.';

create function audit_log_private.count_read(
  organization_id uuid, entries bigint, user_id text default null, user_email text default null
) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  clock constant timestamptz := clock_timestamp();
begin
  if user_id is null then
    select c.id, c.email into user_id, user_email from audit_log_private.caller() as c;
  end if;
  perform audit_log_private.add_log_read(
    organization_id => organization_id,
    reader_id => left(encode(sha256(convert_to(user_id, 'UTF8')), 'hex'), 32)::uuid,
    day => (clock at time zone 'UTC')::date,
    requests => 1, invalid_requests => 0, entries => entries,
    first_at => clock, last_at => clock,
    user_id => user_id, user_email => user_email
  );
end $$;
comment on function audit_log_private.count_read is 'Counts a page that a person reads, or what a destination is sent.';

-- From supabase/schemas/2_feed/01_cursors.sql.

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

-- From supabase/schemas/2_feed/02_feed.sql.

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

-- From supabase/schemas/3_seals/01_seals.sql.

-- Seals. Anyone who keeps a seal outside the database can show later whether the log was changed.
--
-- Each finished UTC day of an organization gets a seal, a hash of its entries, as docs/verifying.md says. (In blocks of
-- 1000 lines: Postgres cannot hash piece by piece, and a day may be larger than memory.)
--
-- A day that was written to since is sealed again. The new seal never covers up a silent change: first, the entries
-- that the old seal's snapshot saw are hashed again. If the hash differs, the day gets no seal and is marked as
-- altered. If some of them were removed, no hash of the rest is known. Then the checksum tells: that of the seal must
-- be that of the rest and of what was removed, which each deletion writes to removed_entries until the next seal. Only
-- once an altered day was emptied openly, a seal says so.

create table audit_log_private.seals (
  organization_id uuid not null references audit_log.organizations,
  sequence bigint not null,
  day date not null,
  entries bigint not null check (entries >= 0),
  -- What the day gained and lost since its seal before; 0 in its first seal.
  added bigint not null check (added >= 0),
  removed bigint not null check (removed >= 0),
  sha256 text not null check (sha256 ~ '^[0-9a-f]{64}$'),
  sealed_at timestamptz not null,
  -- The seal with the sequence before; 64 zeros in the first.
  previous text not null check (previous ~ '^[0-9a-f]{64}$'),
  seal text not null check (seal ~ '^[0-9a-f]{64}$'),
  -- What the seal covers: the entries that this snapshot sees, and the sum (xor) of their checksums.
  snapshot pg_snapshot not null,
  checksum bit(256) not null,
  primary key (organization_id, sequence)
);
comment on table audit_log_private.seals is 'The chain of an organization''s seals. The last one of a day counts.';

create index seals_day_idx on audit_log_private.seals (organization_id, day, sequence);

create trigger refuse_change
  before update or truncate on audit_log_private.seals
  for each statement execute function audit_log_private.refuse_change('seals are append-only');

create function audit_log_private.check_seal() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  last_of_chain constant audit_log_private.seals := audit_log_private.chain_end(new.organization_id);
  last_of_day audit_log_private.seals;
begin
  select s.* into last_of_day from audit_log_private.seals s
  where s.organization_id = new.organization_id and s.day = new.day
  order by s.sequence desc limit 1;
  if new.sequence <> coalesce(last_of_chain.sequence, 0) + 1
    or new.previous <> coalesce(last_of_chain.seal, repeat('0', 64))
    or new.sealed_at < last_of_chain.sealed_at
    or last_of_day.sequence is null and new.added + new.removed > 0
    or last_of_day.sequence is not null and (
      new.added + new.removed = 0 or new.entries <> last_of_day.entries + new.added - new.removed
    )
  then
    raise exception 'seal % of % breaks the rules of the chain', new.sequence, to_char(new.day, 'YYYY-MM-DD')
      using errcode = 'check_violation';
  end if;
  return new;
end $$;
comment on function audit_log_private.check_seal is 'Refuses a seal that breaks the rules of docs/verifying.md.';

create function audit_log_private.refuse_deletion_of_seal() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform from audit_log.organizations o where o.id = old.organization_id;
  if found then
    raise exception 'seals is append-only: DELETE refused while the organization % is there', old.organization_id
      using errcode = 'insufficient_privilege';
  end if;
  return null;
end $$;
comment on function audit_log_private.refuse_deletion_of_seal is 'Keeps seals while their organization exists.';

create trigger check_seal
  before insert on audit_log_private.seals
  for each row execute function audit_log_private.check_seal();

-- Deferrable, because delete_organization has to delete the seals before the organization they refer to.
create constraint trigger refuse_deletion
  after delete on audit_log_private.seals deferrable initially immediate
  for each row execute function audit_log_private.refuse_deletion_of_seal();

-- Without settings and as an expression, so that Postgres inlines it.
create function audit_log_private.entry_checksum(entry_line text) returns bit
language sql stable
return ('x' || pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(entry_line, 'UTF8')), 'hex'))::bit(256);
comment on function audit_log_private.entry_checksum is 'The SHA-256 of an entry''s line, as bits.';

-- No foreign key, because it would be checked for each row.
create table audit_log_private.removed_entries (
  organization_id uuid not null,
  day date not null,
  position bigint generated always as identity,
  -- That of the entry: whether the last seal has it.
  transaction_id xid8 not null,
  -- That of the deletion: whether the last seal declares it.
  removed_in xid8 not null default audit_log_private.transaction_number(),
  checksum bit(256) not null,
  primary key (organization_id, day, position)
);
comment on table audit_log_private.removed_entries is 'The checksums of what was deleted since the last seal.';

create function audit_log_private.note_removed_entries() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  insert into audit_log_private.removed_entries (organization_id, day, transaction_id, checksum)
  select
    c.organization_id, (c.created_at at time zone interval '0')::date, c.transaction_id,
    audit_log_private.entry_checksum(audit_log_private.entry_line(c::audit_log.audit_entries))
  from changed c
  -- Of an organization that leaves, no day is sealed again.
  where c.organization_id not in (select o.id from audit_log.organizations o where o.leaving_at is not null);
  return null;
end $$;
comment on function audit_log_private.note_removed_entries is 'Notes what the next seals declare as removed.';

create trigger note_removed
  after delete on audit_log.audit_entries referencing old table as changed
  for each statement execute function audit_log_private.note_removed_entries();

create table audit_log_private.sealed_days (
  organization_id uuid not null references audit_log.organizations on delete cascade,
  day date not null,
  -- When the day is compared with its seal again.
  check_at timestamptz not null,
  -- When the day was first found altered.
  altered_at timestamptz,
  -- By how many entries the counts were wrong.
  miscounted bigint not null,
  -- When a seal first declared some of its entries as removed; null if none was, or all were.
  reduced_at timestamptz,
  -- The latest day that had been sealed when this one first was; null unless that is a later day.
  sealed_after date,
  primary key (organization_id, day)
);
comment on table audit_log_private.sealed_days is 'The last comparison of each sealed day with its seal.';

create index sealed_days_check_idx on audit_log_private.sealed_days (organization_id, check_at);

create index sealed_days_altered_idx on audit_log_private.sealed_days (organization_id, day)
  where altered_at is not null or miscounted <> 0 or reduced_at is not null or sealed_after is not null;

create table audit_log_private.days_to_seal (
  organization_id uuid not null references audit_log.organizations on delete cascade,
  day date not null,
  queued_at timestamptz not null default clock_timestamp(),
  primary key (organization_id, day)
);
comment on table audit_log_private.days_to_seal is 'Finished days that were written to since their last seal.';

create function audit_log_private.queue_missed_days(organization_id uuid) returns boolean
-- The settings are those of read_page.
language plpgsql volatile set search_path = pg_catalog, pg_temp
  set plan_cache_mode = 'force_generic_plan' set jit = off as $$
declare
  clock constant timestamptz := clock_timestamp();
  today constant date := clock at time zone 'UTC';
  gap record;
  missed record;
  days integer := 0;
begin
  for gap in
    select s.start_day, s.end_day
    from (
      select d.day + 1 as start_day, least(lead(d.day) over (order by d.day), today) as end_day
      from (
        -- The API has no day before the year 1.
        select date '0001-01-01' - 1 as day
        union all
        select d.day from audit_log_private.sealed_days d
        where d.organization_id = queue_missed_days.organization_id
      ) as d
    ) as s
    where s.start_day < s.end_day
  loop
    loop
      select
        (e.created_at at time zone 'UTC')::date as day,
        pg_visible_in_snapshot(e.transaction_id, audit_log_private.log_snapshot()) as is_seen
      into missed
      from audit_log.audit_entries e
      where e.organization_id = queue_missed_days.organization_id
        and e.created_at >= gap.start_day::timestamp at time zone 'UTC'
        and e.created_at < gap.end_day::timestamp at time zone 'UTC'
      order by e.created_at, e.id limit 1;
      exit when not found;
      gap.start_day := missed.day + 1;
      -- Days with counts that a writer holds are left for the next run.
      perform from audit_log_private.entry_counts c
      where c.organization_id = queue_missed_days.organization_id and c.day = missed.day and c.writer_pid <> 0;
      continue when found;
      if missed.is_seen then
        insert into audit_log_private.days_to_seal (organization_id, day)
        values (queue_missed_days.organization_id, missed.day)
        on conflict do nothing;
      else
        -- No seal can have the entry: its transaction_id was made by hand.
        insert into audit_log_private.sealed_days (organization_id, day, check_at, altered_at, miscounted)
        values (queue_missed_days.organization_id, missed.day, clock + interval '30 days', clock, 0);
      end if;
      days := days + 1;
      -- As many as one piece seals.
      if days = 200 then
        return true;
      end if;
    end loop;
  end loop;
  return days > 0;
end $$;
comment on function audit_log_private.queue_missed_days is
  'Queues finished days that have entries and no seal, although no count tells. Returns whether there are any.';

create function audit_log_private.seal_day(organization_id uuid, day date) returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  last_of_day audit_log_private.seals;
  last_of_chain audit_log_private.seals;
  sequence bigint;
  previous text;
  found_now record;
  is_first boolean;
  is_altered boolean;
  sealed_after constant date := (
    select max(s.day) from audit_log_private.sealed_days s
    where s.organization_id = seal_day.organization_id and s.day > seal_day.day
  );
  clock timestamptz := date_trunc('milliseconds', clock_timestamp());
  -- Each day has one night of 30. Less 12 hours: an upkeep may begin earlier than the one before.
  next_check constant timestamptz :=
    clock + make_interval(days => 30 - ((clock at time zone 'UTC')::date - day) % 30, hours => -12);
begin
  select s.* into last_of_day from audit_log_private.seals s
  where s.organization_id = seal_day.organization_id and s.day = seal_day.day
  order by s.sequence desc limit 1;
  is_first := not found;
  found_now := audit_log_private.examine_day(organization_id, day, last_of_day.snapshot);
  if is_first and found_now.entries = 0 and found_now.by_counts = 0 then
    -- Without entries there is nothing to seal. If the day was sealed before, somebody has deleted its seal: altered.
    update audit_log_private.sealed_days d set check_at = next_check, altered_at = coalesce(d.altered_at, clock)
    where d.organization_id = seal_day.organization_id and d.day = seal_day.day;
    perform audit_log_private.forget_removed_entries(organization_id, day, found_now.snapshot);
    return 0;
  end if;
  is_altered := not is_first and (
    -- Without removals, the hash says it, which is stronger than a sum.
    case
      when found_now.removed = 0 then found_now.sealed_sha256 <> last_of_day.sha256
      else found_now.sealed_checksum <> last_of_day.checksum
    end
    or found_now.entries <> last_of_day.entries + found_now.added - found_now.removed
  );

  insert into audit_log_private.sealed_days as d (
    organization_id, day, check_at, altered_at, miscounted, reduced_at, sealed_after
  )
  values (
    seal_day.organization_id, seal_day.day, next_check, case when is_altered then clock end,
    found_now.entries - found_now.by_counts,
    case when not is_first and found_now.removed > 0 then clock end, sealed_after
  )
  on conflict on constraint sealed_days_pkey do update
  set check_at = excluded.check_at,
    altered_at = coalesce(d.altered_at, excluded.altered_at),
    miscounted = excluded.miscounted,
    reduced_at = case when found_now.entries > 0 then coalesce(d.reduced_at, excluded.reduced_at) end;
  if is_altered and found_now.entries = 0 and found_now.removed > 0 then
    -- It stays altered. But the chain says that it is empty, or retention would look like somebody else's deletion.
    found_now.removed := last_of_day.entries + found_now.added;
  elsif is_altered or not is_first and found_now.added = 0 and found_now.removed = 0 then
    return found_now.entries;
  end if;

  last_of_chain := audit_log_private.chain_end(organization_id);
  sequence := coalesce(last_of_chain.sequence, 0) + 1;
  previous := coalesce(last_of_chain.seal, repeat('0', 64));
  -- A clock that was set back breaks no chain.
  clock := greatest(clock, last_of_chain.sealed_at);
  insert into audit_log_private.seals (
    organization_id, sequence, day, entries, added, removed, sha256, sealed_at, previous, seal, snapshot, checksum
  )
  values (
    seal_day.organization_id, sequence, seal_day.day, found_now.entries, found_now.added, found_now.removed,
    found_now.sha256, clock, previous,
    encode(sha256(convert_to(concat_ws(
      ' ', 1, previous, sequence, to_char(seal_day.day, 'YYYY-MM-DD'), found_now.entries, found_now.added,
      found_now.removed, found_now.sha256, audit_log_private.api_time(clock)
    ), 'UTF8')), 'hex'),
    found_now.snapshot, found_now.checksum
  );
  perform audit_log_private.forget_removed_entries(organization_id, day, found_now.snapshot);
  return found_now.entries;
end $$;
comment on function audit_log_private.seal_day is 'Seals a day, or marks it as altered. Returns its number of entries.';

create function audit_log_private.forget_removed_entries(organization_id uuid, day date, snapshot pg_snapshot)
returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  delete from audit_log_private.removed_entries r
  where r.organization_id = forget_removed_entries.organization_id and r.day = forget_removed_entries.day
    and pg_visible_in_snapshot(r.removed_in, snapshot);
end $$;
comment on function audit_log_private.forget_removed_entries is 'Deletes what the last seal of a day declares.';

create function audit_log_private.examine_day(
  organization_id uuid, day date, sealed_snapshot pg_snapshot,
  out snapshot pg_snapshot, out entries bigint, out sha256 text, out checksum bit, out sealed_sha256 text,
  out sealed_checksum bit, out added bigint, out removed bigint, out by_counts bigint
)
-- Stable: all its statements see one snapshot.
language plpgsql stable set search_path = pg_catalog, pg_temp
  set plan_cache_mode = 'force_generic_plan' set jit = off as $$
declare
  gone record;
begin
  snapshot := audit_log_private.log_snapshot();
  by_counts := (
    select coalesce(sum(c.entries), 0) from audit_log_private.entry_counts c
    where c.organization_id = examine_day.organization_id and c.day = examine_day.day
  );
  select h.entries, h.sha256, h.checksum into entries, sha256, checksum
  from audit_log_private.hash_day(organization_id, day, coalesce(sealed_snapshot, snapshot)) as h;
  added := 0;
  removed := 0;
  if sealed_snapshot is null then
    return;
  end if;
  sealed_sha256 := sha256;
  added := (
    select count(*) from audit_log.audit_entries e
    where e.organization_id = examine_day.organization_id
      and e.created_at >= day::timestamp at time zone 'UTC' and e.created_at < (day + 1)::timestamp at time zone 'UTC'
      and not pg_visible_in_snapshot(e.transaction_id, sealed_snapshot)
  );
  select
    count(*) as entries,
    count(*) filter (where not pg_visible_in_snapshot(r.transaction_id, sealed_snapshot)) as late_entries,
    coalesce(
      bit_xor(r.checksum) filter (where pg_visible_in_snapshot(r.transaction_id, sealed_snapshot)), 0::bit(256)
    ) as checksum
  into strict gone
  from audit_log_private.removed_entries r
  where r.organization_id = examine_day.organization_id and r.day = examine_day.day
    and not pg_visible_in_snapshot(r.removed_in, sealed_snapshot);
  sealed_checksum := checksum # gone.checksum;
  if added > 0 then
    select h.entries, h.sha256, h.checksum into entries, sha256, checksum
    from audit_log_private.hash_day(organization_id, day, snapshot) as h;
  end if;
  -- An entry that came late and was removed again counts as both.
  added := added + gone.late_entries;
  removed := gone.entries;
end $$;
comment on function audit_log_private.examine_day is
  'What a day holds, by its entries and by the counts; what it held when it was last sealed, with those that were '
  'removed since; and how many were added and removed since.';

create function audit_log_private.hash_day(
  organization_id uuid, day date, snapshot pg_snapshot, out sha256 text, out checksum bit, out entries bigint
)
-- The settings are those of read_page.
language plpgsql stable set search_path = pg_catalog, pg_temp
  set plan_cache_mode = 'force_generic_plan' set jit = off as $$
declare
  range_end constant timestamptz := (day + 1)::timestamp at time zone 'UTC';
  place audit_log_private.place := audit_log_private.place_before(day::timestamp at time zone 'UTC');
  block record;
  list text := '';
begin
  entries := 0;
  checksum := 0::bit(256);
  loop
    select
      count(*) as entries,
      string_agg(e.line, E'\n' order by e.created_at, e.id) as lines,
      bit_xor(audit_log_private.entry_checksum(e.line)) as checksum,
      (array_agg((e.created_at, e.id)::audit_log_private.place order by e.created_at desc, e.id desc))[1] as last
    into strict block
    from (
      select e.created_at, e.id, audit_log_private.entry_line(e) as line from audit_log.audit_entries e
      where e.organization_id = hash_day.organization_id
        and (e.created_at, e.id) > (place.created_at, place.id) and e.created_at < range_end
        and pg_visible_in_snapshot(e.transaction_id, snapshot)
      order by e.created_at, e.id limit 1000
    ) as e;
    exit when block.entries = 0;
    entries := entries + block.entries;
    checksum := checksum # block.checksum;
    list := list || encode(sha256(convert_to(block.lines || E'\n', 'UTF8')), 'hex') || E'\n';
    exit when block.entries < 1000;
    place := block.last;
  end loop;
  sha256 := encode(sha256(convert_to(list, 'UTF8')), 'hex');
end $$;
comment on function audit_log_private.hash_day is 'The hash of a day''s entries that a snapshot sees, 1000 at a time.';

create function audit_log_private.chain_end(organization_id uuid) returns audit_log_private.seals
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return (
    select s from audit_log_private.seals s where s.organization_id = chain_end.organization_id
    order by s.sequence desc limit 1
  );
end $$;
comment on function audit_log_private.chain_end is 'An organization''s last seal; null if there is none.';

create function audit_log_private.read_seals(organization_id uuid, query audit_log.page_query)
returns audit_log_private.reading
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  first_day constant date := query.since at time zone 'UTC';
  last_day constant date := (query.until - interval '1 microsecond') at time zone 'UTC';
  read audit_log_private.reading;
begin
  read.decision := 'accepted';
  read.total := (
    select count(*) from audit_log_private.seals s
    where s.organization_id = read_seals.organization_id and s.day between first_day and last_day
  );
  read.items := '[' || (
    select coalesce(
      string_agg(audit_log_private.seal_json(s::audit_log_private.seals)::text, E',\n' order by s.sequence), ''
    )
    from (
      select s.* from audit_log_private.seals s
      where s.organization_id = read_seals.organization_id and s.day between first_day and last_day
      order by s.sequence limit query.page_limit offset query.page_offset
    ) as s
  ) || ']';
  read.entries := 0;
  read.altered := (
    select coalesce(json_agg(d.day order by d.day), '[]') from audit_log_private.sealed_days d
    where d.organization_id = read_seals.organization_id
      and d.day between first_day and last_day and d.altered_at is not null
  );
  return read;
end $$;
comment on function audit_log_private.read_seals is 'A page of the seals of a query''s days, and which are altered.';

create function audit_log_private.seal_json(seal audit_log_private.seals) returns json
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return json_build_object(
    'format', 1, 'sequence', seal.sequence, 'day', seal.day, 'entries', seal.entries, 'added', seal.added,
    'removed', seal.removed, 'sha256', seal.sha256, 'sealed_at', audit_log_private.api_time(seal.sealed_at),
    'previous', seal.previous, 'seal', seal.seal
  );
end $$;
comment on function audit_log_private.seal_json is 'A seal as answers show it.';

-- From supabase/schemas/4_api/01_keys.sql.

-- API keys: what is stored about them, their rate limit, and what each was used for on its latest day.

create table audit_log_private.api_keys (
  organization_id uuid not null references audit_log.organizations on delete cascade,
  -- Unique within the organization only, so that nobody can find out the ids of others.
  id uuid not null default gen_random_uuid(),
  name text not null check (char_length(name) between 1 and 100),
  -- The token's first seven and last four characters, by which people recognize it.
  hint text not null,
  -- Ids of people, as caller() gives them, and their addresses at that time. Whoever created a key is its owner.
  created_by text,
  created_by_email text,
  -- Whether the owner had an account in this project's Auth. Others have ids that are never found there.
  owner_has_account boolean not null default false,
  owner_left_at timestamptz,
  created_at timestamptz not null default now(),
  revoked_by text,
  revoked_by_email text,
  revoked_at timestamptz,
  -- Null: the key never expires. Only a rotation changes it, to an earlier time.
  expires_at timestamptz,
  successor_id uuid,
  primary key (organization_id, id),
  unique (organization_id, successor_id),
  foreign key (organization_id, successor_id) references audit_log_private.api_keys
);
comment on table audit_log_private.api_keys is
  'One row for each API key ever created. No token can be derived from it. Live until revoked_at or expires_at.';

create function audit_log_private.is_live(revoked_at timestamptz, expires_at timestamptz) returns boolean
-- Volatile and without settings, so that Postgres inlines it.
language sql volatile
return revoked_at is null and (expires_at is null or expires_at > pg_catalog.clock_timestamp());
comment on function audit_log_private.is_live is 'Whether a key with these times is neither revoked nor expired.';

create table audit_log_private.api_key_hashes (
  token_hash bytea primary key check (octet_length(token_hash) = 32),
  organization_id uuid not null,
  api_key_id uuid not null,
  unique (organization_id, api_key_id),
  foreign key (organization_id, api_key_id) references audit_log_private.api_keys on delete cascade
);
comment on table audit_log_private.api_key_hashes is 'SHA-256 of each token: fast, as tokens have 190 random bits.';

create function audit_log_private.quota() returns integer
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return 60;
end $$;
comment on function audit_log_private.quota is
  'How many requests each key has in any 60 seconds. To change it, replace this function in a migration of yours.';

-- The times of a key's counted requests (docs/design.md says why), in a row that is updated in place: half of each
-- block is left free, and no indexed column changes. It also has the key's use, so that counting costs one write.
create table audit_log_private.rate_limits (
  organization_id uuid not null,
  api_key_id uuid not null,
  counted_at timestamptz[] not null default '{}',
  -- The UTC day of the latest counted request, if any, and the use on that day. Earlier days are in log_reads.
  day date,
  requests integer not null default 0,
  invalid_requests integer not null default 0,
  -- Refused (429) since the first counted one of that day.
  refused_requests integer not null default 0,
  entries bigint not null default 0,
  first_at timestamptz,
  last_at timestamptz,
  last_address inet,
  -- How the key last read entries: feed (after) or pages. Null until then.
  read_mode text,
  -- When the feed last told this key that it has no more entries.
  caught_up_at timestamptz,
  primary key (organization_id, api_key_id),
  foreign key (organization_id, api_key_id) references audit_log_private.api_keys on delete cascade
) with (fillfactor = 50);
comment on table audit_log_private.rate_limits is 'A key''s requests of the last 60 seconds, and its last day of use.';

create function audit_log_private.count_request(
  organization_id uuid, api_key_id uuid, client_address inet default null,
  -- What the request has read, as in audit_log_private.reading; not given if it is counted before it reads.
  read_decision text default 'accepted', entries integer default 0, read_mode text default null,
  has_more boolean default null,
  -- counted, rate_limited, or unauthorized when the key is not live any more. Then the others are not given.
  out outcome text, out remaining integer, out reset integer
)
-- Otherwise one locked row could exhaust the Data API's pool and block every key.
language plpgsql volatile set search_path = pg_catalog, pg_temp set lock_timeout = '2s' as $$
declare
  quota constant integer := audit_log_private.quota();
  -- Fixed: the contract promises requests a minute.
  span constant interval := interval '60 seconds';
  use audit_log_private.rate_limits;
  times timestamptz[];
  clock timestamptz;
  arrival timestamptz;
  today date;
begin
  select r.* into use from audit_log_private.rate_limits r
  where r.organization_id = count_request.organization_id and r.api_key_id = count_request.api_key_id
  for update;

  -- Checked after the lock, so that nothing is counted from the commit of a revocation or the moment of expiry on.
  perform from audit_log_private.api_keys k
  where k.organization_id = count_request.organization_id and k.id = count_request.api_key_id
    and audit_log_private.is_live(k.revoked_at, k.expires_at);
  if not found then
    outcome := 'unauthorized';
    return;
  end if;

  -- Not now(), which is the start of the transaction: a request that waited would be dated before those it waited for.
  clock := clock_timestamp();
  -- Never before the last stored time, so that a clock set back does not reopen the window. Times further
  -- ahead than the window are dropped: they come from a clock that was wrong, and would lock the key out.
  arrival := greatest(clock, use.counted_at[cardinality(use.counted_at)]);
  if arrival > clock + span then
    select greatest(clock, max(t)) into arrival from unnest(use.counted_at) as t where t <= clock + span;
  end if;
  times := array(select t from unnest(use.counted_at) as t where t > arrival - span and t <= arrival order by t);
  if cardinality(times) < quota then
    outcome := 'counted';
    times := times || arrival;
    today := arrival at time zone 'UTC';
    if use.day is distinct from today then
      if use.day is not null then
        perform audit_log_private.add_log_read(
          organization_id => use.organization_id, reader_id => use.api_key_id, day => use.day,
          requests => use.requests, invalid_requests => use.invalid_requests, entries => use.entries,
          first_at => use.first_at, last_at => use.last_at, last_address => use.last_address
        );
      end if;
      select 0, 0, 0, 0, arrival, null::inet
      into use.requests, use.invalid_requests, use.refused_requests, use.entries, use.first_at, use.last_address;
    end if;
    update audit_log_private.rate_limits r
    set counted_at = times, day = today, requests = use.requests + 1,
      invalid_requests = use.invalid_requests + (read_decision <> 'accepted')::integer,
      refused_requests = use.refused_requests,
      entries = use.entries + count_request.entries,
      first_at = use.first_at, last_at = arrival,
      last_address = coalesce(client_address, use.last_address),
      read_mode = coalesce(count_request.read_mode, use.read_mode),
      caught_up_at = case when not has_more then arrival else use.caught_up_at end
    where r.organization_id = count_request.organization_id and r.api_key_id = count_request.api_key_id;
  else
    outcome := 'rate_limited';
    update audit_log_private.rate_limits r set refused_requests = r.refused_requests + 1
    where r.organization_id = count_request.organization_id and r.api_key_id = count_request.api_key_id;
  end if;
  remaining := greatest(0, quota - cardinality(times));
  -- The next request is possible when this time leaves the window. If the quota was lowered, it is not the oldest one.
  reset := greatest(1, ceil(extract(epoch from times[greatest(1, cardinality(times) - quota + 1)] + span - clock)));
end $$;
comment on function audit_log_private.count_request is
  'Counts a request, or refuses it. Locks the key''s row. reset: seconds until one more is possible.';

-- From supabase/schemas/4_api/02_manage_keys.sql.

-- Administrators and the platform's server manage keys. A token is only in the answer that creates or rotates its key.
--
-- A token is `pck_`, 32 random base62 characters (190 bits) and their checksum, which token.ts checks.

create function audit_log_private.new_token() returns text
-- One statement without calls of our functions: auto_explain can log their arguments.
language sql volatile set search_path = pg_catalog, pg_temp as $$
  with random as materialized (
    select
      extensions.gen_random_bytes(128) as bytes,
      '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz' as digits
  ),
  body as materialized (
    select 'pck_' || string_agg(substr(digits, byte % 62 + 1, 1), '') as text
    from (
      select digits, get_byte(bytes, n) as byte from random, generate_series(0, 127) as n
      -- 248 = 4 * 62. With larger bytes, the first digits would be more likely.
      where get_byte(bytes, n) < 248
      limit 32
    ) as unbiased
  ),
  checksum as (
    select text, ('x' || left(encode(sha256(convert_to(text, 'UTF8')), 'hex'), 8))::bit(32)::bigint as number from body
  )
  select text || string_agg(
    substr(digits, (number / power(62::numeric, place)::bigint % 62)::int + 1, 1), '' order by place desc
  )
  from checksum, random, generate_series(0, 5) as place
  group by text
$$;
comment on function audit_log_private.new_token is 'A new token, in plain text.';

create function audit_log_private.visible_name(given text, of_what text) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
  spaces constant text := E'[ \\u00a0\\u1680\\u2000-\\u200a\\u202f\\u205f\\u3000]+';
  -- Control characters, line and paragraph separators, and format characters: bidirectional controls, joiners, tags.
  invisible constant text :=
    E'[\\u0001-\\u001f\\u007f-\\u009f\\u2028\\u2029\\u00ad\\u0600-\\u0605\\u061c\\u06dd\\u070f\\u0890\\u0891\\u08e2'
    '\\u180e\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb'
    '\\U000110bd\\U000110cd\\U00013430-\\U0001343f\\U0001bca0-\\U0001bca3\\U0001d173-\\U0001d17a'
    '\\U000e0000-\\U000e007f]';
  name text;
  hidden text;
begin
  -- Checked before the patterns, which become disproportionately slow on long text.
  if char_length(given) <= 1000 then
    name := normalize(btrim(regexp_replace(btrim(given, E' \t\n\r'), spaces, ' ', 'g')), nfc);
    hidden := substring(name from invisible);
  end if;
  if hidden is not null then
    raise exception 'the name of % has a character that cannot be seen, U+%: remove it', of_what,
      upper(regexp_replace(to_hex(ascii(hidden) + x'1000000'::int), '^10*(?=.{4})', ''))
      using errcode = 'invalid_parameter_value';
  end if;
  if name is null or name = '' or char_length(name) > 100 then
    raise exception 'the name of % must have 1 to 100 characters, not only spaces', of_what
      using errcode = 'invalid_parameter_value';
  end if;
  return name;
end $$;
comment on function audit_log_private.visible_name is
  'A name as it is stored. Raises 22023 if it is blank, too long, or has invisible characters.';

create function audit_log_private.insert_api_key(
  organization_id uuid, name text, api_key_id uuid default null, expires_at timestamptz default null
) returns json
language plpgsql volatile set search_path = pg_catalog, pg_temp set timezone = 'UTC' as $$
declare
  token constant text := audit_log_private.new_token();
  -- Computed here, because auto_explain can log the values of an insert.
  hash constant bytea := sha256(convert_to(token, 'UTF8'));
  actor constant record := audit_log_private.acting_person();
  platform_id constant text := (
    select o.platform_id from audit_log.organizations o where o.id = insert_api_key.organization_id
  );
  api_key audit_log_private.api_keys;
begin
  if expires_at <= clock_timestamp()
    or expires_at at time zone 'UTC' > clock_timestamp() at time zone 'UTC' + interval '5 years'
  then
    raise exception 'expires_at must be in the future, at most 5 years ahead, or null for never'
      using errcode = 'invalid_parameter_value';
  end if;
  insert into audit_log_private.api_keys as k (
    organization_id, id, name, hint, created_by, created_by_email, owner_has_account, created_at, expires_at
  )
  values (
    insert_api_key.organization_id, coalesce(insert_api_key.api_key_id, gen_random_uuid()),
    audit_log_private.visible_name(insert_api_key.name, 'an API key'), left(token, 7) || '…' || right(token, 4),
    actor.id, actor.email, audit_log_private.has_account(actor.id), clock_timestamp(), insert_api_key.expires_at
  )
  returning k.* into api_key;
  insert into audit_log_private.api_key_hashes (token_hash, organization_id, api_key_id)
  values (hash, api_key.organization_id, api_key.id);
  insert into audit_log_private.rate_limits (organization_id, api_key_id)
  values (api_key.organization_id, api_key.id);
  -- An expression and not a query, because auto_explain can log the values of a query.
  return json_build_object(
    'id', api_key.id, 'organization_id', platform_id, 'name', api_key.name, 'hint', api_key.hint,
    'created_at', api_key.created_at, 'expires_at', api_key.expires_at, 'token', token
  );
end $$;
comment on function audit_log_private.insert_api_key is 'Creates an API key of the acting person, if there is one.';

create function audit_log_private.check_live_keys(organization_id uuid) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  -- Those who make keys at once take turns, and each counts after those before have committed. Called last, so that
  -- nobody holds the lock while waiting for another.
  perform pg_advisory_xact_lock(hashtextextended('audit_log_private.api_keys ' || organization_id, 0));
  perform from audit_log_private.api_keys k
  where k.organization_id = check_live_keys.organization_id and audit_log_private.is_live(k.revoked_at, k.expires_at)
  having count(*) > 100;
  if found then
    raise exception 'an organization has at most 100 live API keys: revoke one that nobody uses'
      using errcode = 'AL007';
  end if;
end $$;
comment on function audit_log_private.check_live_keys is 'Raises AL007 if an organization has more than 100 live keys.';

create function audit_log_private.log_key_event(organization_id uuid, action text, api_key_id uuid) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  request constant record := audit_log_private.request_context();
begin
  insert into audit_log.audit_entries (organization_id, action, user_email, agent_name, data)
  select
    k.organization_id, log_key_event.action, coalesce(request.email, request.fallback_email), 'API keys',
    jsonb_strip_nulls(jsonb_build_object(
      'api_key_id', k.id, 'name', k.name, 'hint', k.hint, 'successor_id', k.successor_id
    )) || request.data
  from audit_log_private.api_keys k
  join audit_log.organizations o on o.id = k.organization_id and o.logs_key_events
  where k.organization_id = log_key_event.organization_id and k.id = log_key_event.api_key_id;
end $$;
comment on function audit_log_private.log_key_event is 'Logs what somebody did to an API key, with logs_key_events.';

create function audit_log_private.create_api_key(
  organization_id text,
  name text,
  -- To retry safely, send your own: a repeat fails with 23505 instead of creating a second key.
  api_key_id uuid default null,
  -- Text, because the Data API would read a time without a zone in the session's.
  expires_at text default null
) returns json
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  organization constant uuid := audit_log_private.administered_organization(organization_id);
  api_key json;
begin
  api_key := audit_log_private.insert_api_key(organization, name, api_key_id, audit_log_private.utc_time(expires_at));
  -- Not in the statement below: a log of statements would have the token.
  api_key_id := (api_key ->> 'id')::uuid;
  perform audit_log_private.log_key_event(organization, 'api_key_created', api_key_id);
  perform audit_log_private.check_live_keys(organization);
  return api_key;
end $$;
comment on function audit_log_private.create_api_key is
  'Creates an API key. No other answer has its token. For administrators and the secret key.';

create function audit_log_private.rotate_api_key(
  organization_id text, api_key_id uuid, overlap interval default '24 hours', successor_id uuid default null
) returns json
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
  -- Elsewhere, the time between two moments in summer and winter differs by an hour.
  set timezone = 'UTC' as $$
declare
  organization constant uuid := (audit_log_private.allowed_organization(organization_id, for_admins => true)).id;
  -- In seconds, because days and months vary in length.
  overlap_seconds constant numeric := extract(epoch from overlap);
  clock timestamptz;
  api_key audit_log_private.api_keys;
  successor json;
begin
  -- Also where commits do not wait for the disk: after a crash, the key must not work again.
  perform set_config('synchronous_commit', 'on', true);
  if overlap_seconds is null or overlap_seconds not between 0 and 90 * 24 * 60 * 60 then
    raise exception 'overlap must be an interval of 0 to 90 days' using errcode = 'invalid_parameter_value';
  end if;
  -- Locked, so that two rotations at once take turns.
  select k.* into api_key from audit_log_private.api_keys k
  where k.organization_id = organization and k.id = rotate_api_key.api_key_id
  for update;
  clock := clock_timestamp();
  if not found then
    perform audit_log_private.refuse_access();
  elsif api_key.successor_id is not null then
    raise exception 'this API key has a successor: if the token of that one is lost, rotate it with overlap 0'
      using errcode = 'AL001';
  elsif not audit_log_private.is_live(api_key.revoked_at, api_key.expires_at) then
    raise exception 'this API key is revoked or expired: create another' using errcode = 'AL002';
  end if;
  successor := audit_log_private.insert_api_key(
    organization, api_key.name, rotate_api_key.successor_id,
    -- The same lifetime as its predecessor, at most five years: with more leap days, five years can be a day longer.
    case when api_key.expires_at is not null then least(
      clock + (api_key.expires_at - api_key.created_at),
      (clock at time zone 'UTC' + interval '5 years') at time zone 'UTC'
    ) end
  );
  update audit_log_private.api_keys k
  set successor_id = (successor ->> 'id')::uuid,
    expires_at = least(k.expires_at, clock + make_interval(secs => overlap_seconds))
  where k.organization_id = organization and k.id = rotate_api_key.api_key_id;
  perform audit_log_private.log_key_event(organization, 'api_key_rotated', api_key_id);
  perform audit_log_private.check_live_keys(organization);
  return successor;
end $$;
comment on function audit_log_private.rotate_api_key is
  'Creates the successor of an API key, which expires after the overlap. For administrators and the secret key.';

create function audit_log_private.revoke_api_key(organization_id text, api_key_id uuid) returns json
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' as $$
declare
  organization constant record := audit_log_private.allowed_organization(organization_id, for_admins => true);
  actor constant record := audit_log_private.acting_person();
  api_key audit_log_private.api_keys;
begin
  -- As in rotate_api_key.
  perform set_config('synchronous_commit', 'on', true);
  update audit_log_private.api_keys k
  set revoked_at = clock_timestamp(), revoked_by = actor.id, revoked_by_email = actor.email
  where k.organization_id = organization.id and k.id = api_key_id and k.revoked_at is null;
  if found then
    perform audit_log_private.log_key_event(organization.id, 'api_key_revoked', api_key_id);
  end if;
  select k.* into api_key from audit_log_private.api_keys k
  where k.organization_id = organization.id and k.id = api_key_id;
  if not found then
    perform audit_log_private.refuse_access();
  end if;
  return json_build_object(
    'id', api_key.id, 'organization_id', organization.platform_id, 'name', api_key.name, 'hint', api_key.hint,
    'created_at', api_key.created_at, 'revoked_at', api_key.revoked_at, 'revoked_by_email', api_key.revoked_by_email
  );
end $$;
comment on function audit_log_private.revoke_api_key is
  'Revokes an API key: from the commit on, its requests are refused. For administrators and the secret key.';

create function audit_log_private.mark_keys_of_leaver(organization_id uuid, person text, revoke boolean) returns integer
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  clock constant timestamptz := clock_timestamp();
  actor constant record := audit_log_private.acting_person();
  key record;
  keys integer := 0;
begin
  for key in
    update audit_log_private.api_keys k
    set owner_left_at = coalesce(k.owner_left_at, clock),
      revoked_at = case when revoke then clock end,
      revoked_by = case when revoke then actor.id end,
      revoked_by_email = case when revoke then actor.email end
    where k.organization_id = mark_keys_of_leaver.organization_id and k.created_by = person
      and audit_log_private.is_live(k.revoked_at, k.expires_at)
    returning k.id
  loop
    keys := keys + 1;
    if revoke then
      perform audit_log_private.log_key_event(organization_id, 'api_key_revoked', key.id);
    end if;
  end loop;
  return keys;
end $$;
comment on function audit_log_private.mark_keys_of_leaver is 'Marks a person''s live keys, or with revoke ends them.';

create function audit_log_private.list_api_keys(organization_id text) returns json
language plpgsql stable security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' as $$
declare
  organization constant uuid := (audit_log_private.allowed_organization(organization_id, for_admins => true)).id;
  clock constant timestamptz := clock_timestamp();
begin
  return (
    select coalesce(json_agg(l order by l.ended_at desc nulls first, l.created_at desc, l.id), '[]') from (
      select
        k.id, k.name, k.hint, k.created_at, k.created_by_email, k.revoked_at, k.revoked_by_email, k.expires_at,
        k.successor_id, k.owner_left_at,
        least(k.revoked_at, case when k.expires_at <= clock then k.expires_at end) as ended_at,
        case
          when k.revoked_at is not null then 'revoked'
          when k.expires_at <= clock then 'expired'
          when k.expires_at <= clock + interval '14 days' then 'expiring'
          else 'active'
        end as state,
        r.last_at as last_used_at, r.read_mode, r.caught_up_at,
        audit_log_private.quota() as quota,
        (
          select count(*) from unnest(r.counted_at) as t
          -- Later times come from a clock that was wrong.
          where t between clock - interval '60 seconds' and clock + interval '60 seconds'
        ) as requests_last_minute
      from audit_log_private.api_keys k
      cross join lateral (
        select l.counted_at, l.last_at, l.read_mode, l.caught_up_at from audit_log_private.rate_limits l
        where l.organization_id = k.organization_id and l.api_key_id = k.id
        -- A look-up for each key. With outdated statistics, a join compared each key with all of the organization's.
        offset 0
      ) as r
      where k.organization_id = organization
    ) as l
  );
end $$;
comment on function audit_log_private.list_api_keys is
  'All API keys of an organization, live ones first (docs/keys.md). For administrators and the secret key.';

create function audit_log_private.api_key_usage(organization_id uuid, start_date date, end_date date) returns json
language plpgsql stable security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' as $$
declare
  names jsonb;
begin
  perform audit_log_private.require_access(organization_id, for_admins => false);
  perform audit_log_private.check_days(start_date, end_date);
  -- Not joined: with outdated statistics, a join compared each row with all keys of the organization.
  select jsonb_object_agg(k.id, k.name) into names from audit_log_private.api_keys k
  where k.organization_id = api_key_usage.organization_id;
  return (
    select coalesce(json_agg(u order by u.day, u.name, u.user_email, u.user_id, u.api_key_id), '[]')
    from (
      select
        r.day,
        case when not r.is_person then r.reader_id end as api_key_id,
        case when not r.is_person then names ->> r.reader_id::text end as name,
        r.user_id, r.user_email, r.requests, r.invalid_requests, r.entries, r.first_at, r.last_at, r.last_address
      from (
        select l.* from audit_log_private.log_reads l
        where l.organization_id = api_key_usage.organization_id and l.day between start_date and end_date
        union all
        select u.organization_id, false, u.api_key_id, u.day, null, null, u.requests, u.invalid_requests, u.entries,
          u.first_at, u.last_at, u.last_address
        from audit_log_private.rate_limits u
        where u.organization_id = api_key_usage.organization_id and u.day between start_date and end_date
      ) as r
    ) as u
  );
end $$;
comment on function audit_log_private.api_key_usage is
  'Who read the log, by UTC day, within the last 400 days (docs/keys.md). For administrators and auditors.';

select audit_log_private.serve(name)
from unnest('{create_api_key,rotate_api_key,revoke_api_key,list_api_keys,api_key_usage}'::text[]) as name;

-- From supabase/schemas/4_api/03_api.sql.

-- One request to the API is one call of public_audit_log, which finds the key by the hash of the token. Then
-- answer_request does the rest. It returns decisions and never raises them, because a raise would undo the count.

-- The Data API sends a value of this type as it is. On the way, json would be parsed twice.
create domain audit_log."application/vnd.public-audit-log+json" as text;

create function audit_log.public_audit_log(
  token_hash text, resource text, query audit_log.page_query default null, client_address inet default null
) returns audit_log."application/vnd.public-audit-log+json"
-- plpgsql, because it keeps plans between calls.
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  key record;
begin
  select h.organization_id, h.api_key_id into key from audit_log_private.api_key_hashes h
  where h.token_hash = decode(public_audit_log.token_hash, 'hex');
  -- Also called without a key, so that an unknown token takes as long as a revoked or expired one.
  return audit_log_private.answer_request(key.organization_id, key.api_key_id, resource, query, client_address);
end $$;
comment on function audit_log.public_audit_log is
  'Answers one request of the public audit log: the text of {decision, …}, see ask_database.ts. token_hash: SHA-256 '
  'in hexadecimal. resource: entries, entry, seals or actions. For the Edge Function only.';

create function audit_log_private.answer_request(
  organization_id uuid, api_key_id uuid, resource text, query audit_log.page_query, client_address inet
) returns text
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  quota constant integer := audit_log_private.quota();
  state record;
  is_let_through boolean := true;
  read audit_log_private.reading;
  mode text;
  request record;
  catalogue json;
  answer text;
begin
  select
    -- What answers call organization_id.
    o.platform_id,
    coalesce(
      r.counted_at[cardinality(r.counted_at) - quota + 1] > clock_timestamp() - interval '60 seconds', false
    ) as looks_exhausted
  into state
  from audit_log_private.api_keys k
  join audit_log_private.rate_limits r on r.organization_id = k.organization_id and r.api_key_id = k.id
  join audit_log.organizations o on o.id = k.organization_id and o.closed_at is null
  where k.organization_id = answer_request.organization_id and k.id = answer_request.api_key_id
    and audit_log_private.is_live(k.revoked_at, k.expires_at);
  if not found then
    return json_build_object('decision', 'unauthorized');
  end if;

  -- The page is read before the request is counted, because counting locks the key's row until the end: requests of one
  -- key would wait for each other's pages. A key that looks exhausted reads its page only after it was counted.
  if state.looks_exhausted then
    request := audit_log_private.count_request(organization_id, api_key_id, client_address);
    is_let_through := request.outcome = 'counted';
  end if;
  if is_let_through then
    read := audit_log_private.read_resource(organization_id, resource, query);
    if resource = 'entries' and read.decision = 'accepted' then
      mode := case when query.after is null then 'pages' else 'feed' end;
    end if;
  end if;
  if not state.looks_exhausted then
    request := audit_log_private.count_request(
      organization_id, api_key_id, client_address, read.decision, coalesce(read.entries, 0), mode, read.has_more
    );
  elsif is_let_through then
    -- What count_request notes of a reading.
    update audit_log_private.rate_limits r
    set invalid_requests = r.invalid_requests + (read.decision <> 'accepted')::integer,
      entries = r.entries + coalesce(read.entries, 0),
      read_mode = coalesce(mode, r.read_mode),
      caught_up_at = case when not read.has_more then r.last_at else r.caught_up_at end
    where r.organization_id = answer_request.organization_id and r.api_key_id = answer_request.api_key_id;
  end if;

  if request.outcome = 'unauthorized' then
    return json_build_object('decision', 'unauthorized');
  elsif request.outcome = 'rate_limited' then
    return json_build_object(
      'decision', 'rate_limited', 'api_key_id', api_key_id, 'quota', quota,
      'remaining', request.remaining, 'reset', request.reset
    );
  end if;
  if read.decision = 'invalid_query' and resource = 'entries' then
    -- If every action asked for exists by now, one was added after the check. Then the list leaves these out, so that
    -- the Edge Function still finds the error.
    select json_agg(a.code order by a.position) into strict catalogue from audit_log.actions a
    where (a.code = any (query.actions) and query.actions <@ array(select b.code from audit_log.actions b)) is not true;
  end if;
  answer := json_build_object(
    'decision', read.decision, 'api_key_id', api_key_id, 'quota', quota,
    'remaining', request.remaining, 'reset', request.reset, 'organization_id', state.platform_id,
    'actions', coalesce(catalogue, '[]'), 'total', read.total, 'cursor', read.cursor, 'has_more', read.has_more,
    'altered', read.altered
  );
  return coalesce(left(answer, -1) || E',"items":\n' || read.items || E'\n}', answer);
end $$;
comment on function audit_log_private.answer_request is 'Answers a request with a key of this organization.';

create function audit_log_private.read_resource(organization_id uuid, resource text, query audit_log.page_query)
returns audit_log_private.reading
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  line text;
  read audit_log_private.reading;
begin
  -- Not "is not null", which would ask for every field.
  if not query is null then
    query := audit_log_private.with_defaults(query);
    if resource = 'seals' then
      return audit_log_private.read_seals(organization_id, query);
    elsif resource = 'actions' then
      return audit_log_private.read_actions();
    elsif resource = 'entry' then
      line := audit_log_private.line_of(organization_id, query.created_at, query.id);
      read.decision := 'accepted';
      read.entries := (line is not null)::integer;
      read.total := read.entries;
      read.items := '[' || coalesce(line, '') || ']';
      return read;
    elsif resource = 'entries' and query.after is null then
      return audit_log_private.read_page(organization_id, query);
    elsif resource = 'entries' then
      -- What a cursor has seen is on disk before its reader gets it: this request's commit comes later in the WAL.
      perform set_config('synchronous_commit', 'on', true);
      return audit_log_private.read_feed(organization_id, query);
    end if;
  end if;
  read.decision := 'invalid_query';
  return read;
end $$;
comment on function audit_log_private.read_resource is
  'Reads what a request asks for. invalid_query if the query is null, there is no such resource, or as readers decide.';

-- From supabase/schemas/5_logged_tables/01_log_table.sql.

-- log_table logs a table of the platform (docs/logging.md). For a table `documents`, it makes triggers, and:
--
--  - logged_documents(), which the triggers call. Its comment has what was made of the arguments.
--  - logged_documents(jsonb), which is never called. It selects what log_table names, in SQL that Postgres has parsed.
--    So Postgres prints it with the names that columns have now, and refuses to drop them, to change their types, and
--    to drop `computed`. Each trigger's condition names it, so `drop … cascade` drops the triggers: no write breaks.

create function audit_log_private.logged_tables()
returns table (logged regclass, trigger_function regprocedure, arguments jsonb)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return query
    select
      -- By its triggers, because it may have another name now; by its name, if it has lost the triggers.
      coalesce(
        (select t.tgrelid from pg_trigger t where t.tgfoid = p.oid and t.tgparentid = 0 limit 1)::regclass,
        to_regclass(c.arguments ->> 'logged')
      ),
      p.oid::regprocedure, c.arguments
    from pg_proc p cross join lateral (select obj_description(p.oid, 'pg_proc')::jsonb) as c (arguments)
    where p.pronamespace = 'audit_log_private'::regnamespace and p.prorettype = 'trigger'::regtype
      and p.proname like E'logged\\_%';
end $$;
comment on function audit_log_private.logged_tables is
  'The tables that log_table logs. logged: null if the table is gone. arguments: of the call, with what it found out.';

create function audit_log_private.required_but_missing(action text, names text[]) returns text
language plpgsql stable strict set search_path = pg_catalog, pg_temp as $$
declare
  required constant text[] := (select a.required from audit_log.actions a where a.code = action);
begin
  return case
    when required is null then format('the action %L is not in the table audit_log.actions', action)
    when not required <@ names then format('the action %L requires %s in data', action, array_to_string(required, ', '))
  end;
end $$;
comment on function audit_log_private.required_but_missing is 'Why such entries would be refused, or null.';

create table audit_log_private.logging_failures (
  logged text not null,
  writer_pid integer not null,
  failures bigint not null,
  last_at timestamptz not null,
  last_error text not null,
  primary key (logged, writer_pid)
);
comment on table audit_log_private.logging_failures is 'Statements without their entries (carry_on), by backend.';

create function audit_log_private.note_failure(logged text, error text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  insert into audit_log_private.logging_failures as f (logged, writer_pid, failures, last_at, last_error)
  values (logged, pg_backend_pid(), 1, clock_timestamp(), left(error, 500))
  on conflict on constraint logging_failures_pkey do update
  set failures = f.failures + 1, last_at = excluded.last_at, last_error = excluded.last_error;
end $$;
comment on function audit_log_private.note_failure is 'Counts a statement whose entries could not be written.';

create function audit_log_private.logging_problems() returns table (logged text, problem text)
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  return query
    with of_nobody as materialized (
      select e.action, count(*) as entries
      from audit_log.organizations o
      cross join lateral (
        select e.action from audit_log.audit_entries e
        where e.organization_id = o.id and lower(e.user_email) = 'unknown@invalid'
          and e.created_at > now() - interval '1 day' and e.data #>> '{caller,kind}' = 'secret_key'
          and (e.data #> '{caller,on_behalf_of}' ?| '{id,email}') is not true
        -- One look into the index of persons for each organization.
        offset 0
      ) as e
      group by e.action
    )
    select coalesce(l.logged::text, l.arguments ->> 'logged'), p.problem
    from audit_log_private.logged_tables() l
    cross join (values ('on_insert', 4), ('on_delete', 8), ('on_update', 16)) as e (name, bit)
    left join pg_trigger t on t.tgfoid = l.trigger_function and t.tgparentid = 0 and t.tgtype & e.bit > 0
    left join of_nobody n on n.action = l.arguments ->> e.name
    cross join lateral (
      values
        (case
          when l.logged is null
            then format('the table is gone. Drop %s, or log the table that replaces it', l.trigger_function)
          when t.oid is null then format('the trigger of %s is gone: call log_table again', e.name)
          when t.tgenabled not in ('O', 'A') then format('the trigger of %s is disabled', e.name)
        end),
        (audit_log_private.required_but_missing(l.arguments ->> e.name, (l.arguments ->> 'names')::text[])),
        ('the secret key wrote ' || n.entries || ' entries with ' || n.action || ' in the last 24 hours and named '
          'nobody: send the header X-Audit-Person')
    ) as p (problem)
    where l.arguments ? e.name and p.problem is not null
    union
    -- Partitions, and tables that inherit.
    select l.logged::text, format('writes that name its child %s are not logged', i.inhrelid::regclass)
    from pg_inherits i join audit_log_private.logged_tables() l on l.logged = i.inhparent
    where i.inhrelid not in (select o.logged from audit_log_private.logged_tables() o where o.logged is not null);
end $$;
comment on function audit_log_private.logging_problems is 'Why entries are missing, or will be, or lack their person.';

create function audit_log_private.require_computed(fields text[], computed jsonb) returns jsonb
-- Volatile, so that Postgres calls it once for each row.
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  if jsonb_typeof(computed) <> 'object' or not computed ?& fields then
    raise exception 'the function that log_table calls (computed) returned no object with the fields %', fields
      using errcode = 'invalid_parameter_value';
  end if;
  return computed;
end $$;
comment on function audit_log_private.require_computed is 'computed. Raises 22023 if it is not what it must be.';

create function audit_log_private.with_changes(
  data jsonb, names text[], kinds text[], former text[], present text[]
) returns jsonb
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
  changes jsonb := jsonb '{}';
begin
  for n in 1 .. coalesce(cardinality(names), 0) loop
    if former[n] is distinct from present[n] then
      changes := changes || jsonb_build_object(names[n], jsonb_build_array(
        audit_log_private.json_value(former[n], kinds[n]), audit_log_private.json_value(present[n], kinds[n])
      ));
    end if;
  end loop;
  return case when changes = '{}' then data else data || jsonb_build_object('changes', changes) end;
end $$;
comment on function audit_log_private.with_changes is 'data with changes: {name: [old, new]} of values that differ.';

create function audit_log_private.with_generated(logged regclass, given jsonb) returns jsonb
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  -- What is within quotes is part of a name.
  outside_quotes constant text := '(?=(?:[^"]*"[^"]*")*[^"]*$)';
begin
  return (
    select given - '{organization,agent_name,person,data}'::text[] || jsonb_strip_nulls(jsonb_build_object(
      'columns', string_agg('t.' || quote_ident(a.attname) || ' as ' || v.alias || ', ', ''),
      'fields', coalesce(array_agg(distinct v.field) filter (where a.attname is null), '{}')::text,
      'repeats', count(*) > count(distinct (l.role, case when l.role in ('key', 'data', 'changes') then v.name end)),
      'names', coalesce(array_agg(v.name order by i.n) filter (where l.role = 'data'), '{}')::text,
      'changed', array_agg(v.name order by l.role desc, i.n) filter (where v.is_compared)::text,
      'kinds', array_agg(s.kind order by l.role desc, i.n) filter (where v.is_compared)::text,
      'values', string_agg(s.value, ', ' order by l.role desc, i.n) filter (where v.is_compared),
      'compared', format('row(%s)', string_agg(v.alias, ', ') filter (where v.is_compared)),
      'keys', count(*) filter (where l.role = 'key'),
      'is_fixed', bool_and(s.is_fixed) and not given ? 'computed',
      'data', string_agg(format('coalesce(audit_log_private.cut(%s, 100), %L)', s.value, ''), ', ' order by i.n)
        filter (where l.role = 'data'),
      -- Of an updated row, what it is; or what it was, if it is gone.
      'outputs', string_agg(format('case when n.n is null then o.%1$s else n.%1$s end as %1$s, ', v.alias), '')
        filter (where a.attname is not null and not v.is_compared)
    )) || coalesce(jsonb_object_agg(l.role, s.value) filter (where l.role not in ('data', 'changes', 'key')), '{}')
    from jsonb_each_text(given || jsonb_build_object('key', (
      select string_agg(pg_get_indexdef(i.indexrelid, n, false), ', ')
      from pg_index i cross join generate_series(1, i.indnkeyatts) as n
      where i.indrelid = logged and i.indisprimary and given ? 'changes'
    ))) as l (role, list)
    cross join regexp_split_to_table(nullif(btrim(l.list), ''), ',' || outside_quotes) with ordinality as i (item, n)
    cross join regexp_match(btrim(i.item), E'^(.*?)(?:\\s+as\\s+' || outside_quotes || '(.*))?$', 'i') as w (words)
    cross join lateral (
      select
        l.role || i.n as alias, l.role in ('key', 'changes') as is_compared,
        array_to_string(parse_ident(w.words[1]), '.') as field,
        array_to_string(parse_ident(coalesce(w.words[2], w.words[1])), '.') as name
    ) as v
    -- A name that is no column is a field of computed. Triggers do not see the value of virtual generated columns.
    left join pg_attribute a
      on a.attrelid = logged and a.attname = v.field and a.attnum > 0 and a.attgenerated <> 'v'
    left join pg_type t on t.oid = a.atttypid
    cross join lateral (
      select
        -- SQL for its text, in the database's collation: two could not be compared, and one may take a for A.
        case
          when a.attname is not null then v.alias || '::text collate pg_catalog."default"'
          when l.role = 'changes' then format('nullif(computed -> %L, ''null'')::text', v.field)
          else format('(computed ->> %L)', v.field)
        end as value,
        -- By the function that writes values of a type as text: a domain has that of the type under it.
        case
          when a.attname is null or t.typoutput = 'boolout'::regproc then 'json'
          when t.typoutput::text ~ '^(int[248]|float[48]|numeric_)out$' then 'number'
          else 'string'
        end as kind,
        -- Whether no setting changes its text.
        t.typoutput::text ~ '^(bool|bpchar|enum_|int[248]|jsonb?_|name|numeric_|text|uuid_|varchar)out$' as is_fixed
    ) as s
    where l.role in ('organization', 'agent_name', 'person', 'data', 'changes', 'key')
  );
end $$;
comment on function audit_log_private.with_generated is 'The arguments of log_table, with the SQL made from them.';

create function audit_log_private.logging_statement(event text, made jsonb, of_one boolean default false) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $fn$
declare
  data constant text := format('jsonb_object(%L, array[%s]::text[])', made ->> 'names', made ->> 'data');
  compared constant text := format('array[%s]::text[]', made ->> 'values');
  rows constant text := '(select t.*%s from (select {columns}%s from %s as t) as t where t.computed is not null)';
  -- Postgres puts what a row was and what it is at the same place of the two tables. They differ in size only where a
  -- trigger swallows a row on its way to another partition. Then nothing is a pair. What is not logged counts, too.
  numbers constant text := ', row_number() over () as n, count(*) over () as size';
  owned constant text := format(', %s as compared, coalesce(%s, '''') as owner', compared, made ->> 'organization');
begin
  -- ensure_organization is only asked for one that the log does not know yet, and refuses what is null. What needs no
  -- more than 600 bytes in binary form needs no more than 4096 as text.
  return format(
    $sql$
      insert into audit_log.audit_entries (organization_id, action, user_email, agent_name, data)
      select
        e.organization_id, e.action, e.user_email, e.agent_name,
        case when pg_column_size(e.data) <= 600 then e.data else audit_log_private.fitted(e.data) end
      from (
        select
          coalesce(o.id, audit_log_private.ensure_organization(coalesce(%1$s, ''))) as organization_id,
          coalesce(computed ->> 'action', %2$L) as action,
          coalesce(q.email, %4$s, q.fallback_email) as user_email,
          audit_log_private.name_or_unnamed(%3$s) as agent_name, %5$s || q.data as data
        from audit_log_private.request_context() as q
        cross join %6$s as r left join audit_log.organizations o on o.platform_id = %1$s
        -- Computes each value once.
        offset 0
      ) as e%7$s$sql$,
    made ->> 'organization', made ->> ('on_' || event), coalesce(made ->> 'agent_name', 'null'),
    -- A row does not say who deletes it.
    case when event <> 'delete' and made ? 'person' then format(
      'audit_log_private.valid_email(%1$s), (select audit_log_private.valid_email(u.email) from auth.users u '
      'where u.id = substring(%1$s from ''^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$'')::uuid)', made ->> 'person'
    ) else 'null' end,
    case when event = 'update' then format(
      'audit_log_private.with_changes(%s, %L, %L, former, present)', data, made ->> 'changed', made ->> 'kinds'
    ) else data end,
    case
      when event <> 'update' then format(rows, '', '', 'changed_rows')
      when of_one then format(rows, format(
        ', %1$s as present, (select %1$s from (select {columns} from former_rows as t) as t) as former', compared
      ), '', 'changed_rows')
      -- An update that moves a row to another organization is two entries: what was there, and what is there. So no
      -- organization gets values of another. A key that comes or goes with its row has not changed. A full join is
      -- never a nested loop, however few rows it was planned for.
      else format(
        '(select %1$s case when n.n is null then o.computed else n.computed end as computed, '
        'coalesce(o.compared, n.compared[:%2$s]) as former, coalesce(n.compared, o.compared[:%2$s]) as present '
        'from %3$s as o full join %4$s as n on n.n = o.n and n.size = o.size and n.owner = o.owner '
        'where n.n is null or o.n is null or %5$s)',
        made ->> 'outputs', made ->> 'keys', format(rows, owned, numbers, 'former_rows'),
        format(rows, owned, numbers, 'changed_rows'),
        case made ->> 'changes' when '' then 'true' else 'n.compared <> o.compared' end
      )
    end,
    -- Of one row, comparing values here would build them twice.
    case when of_one and made ->> 'changes' <> '' then ' where e.data ? ''changes''' end
  );
end $fn$;
comment on function audit_log_private.logging_statement is 'SQL that writes entries. of_one: of a single updated row.';

create function audit_log_private.selected_by(name text) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp set quote_all_identifiers = off as $$
declare
  body constant text := pg_get_function_sqlbody(to_regprocedure(format('audit_log_private.%I(jsonb)', name)));
begin
  return replace(substring(body from E'SELECT (.*)\\n +FROM '), '($1)) AS computed', '(to_jsonb(t.*))) AS computed');
end $$;
comment on function audit_log_private.selected_by is
  'What logged_…(jsonb) selects, by the names that columns have now. Immutable: a plan asks of a constant once.';

create function audit_log_private.make_trigger_function(name name, made jsonb) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $fn$
declare
  selected constant text := audit_log_private.selected_by(name);
  statements constant jsonb := (
    select jsonb_object_agg(upper(e), audit_log_private.logging_statement(e, made))
    from unnest('{insert,update,delete}'::text[]) as e
  );
  of_row constant text := '(select %s from (select {columns} from %s as t) as t)';
  -- Nearly always, there is one row, which stays in its organization, and often nothing changes that is logged.
  is_changed constant text := case when made ? 'computed' then 'null' else format(
    'case when not exists (select from former_rows offset 1) and %s = %s then %s end',
    format(of_row, made ->> 'organization', 'former_rows'), format(of_row, made ->> 'organization', 'changed_rows'),
    case when made ->> 'changes' = '' then 'true' else concat(
      format(of_row, made ->> 'compared', 'former_rows'), ' *<> ', format(of_row, made ->> 'compared', 'changed_rows')
    ) end
  ) end;
begin
  execute format(
    'create or replace function audit_log_private.%I() returns trigger language plpgsql security definer '
    'set search_path = pg_catalog, pg_temp set quote_all_identifiers = off %s as %L',
    name,
    -- All settings on which a value as text depends, or an update could be no change. They cost an insert some percent.
    case when made -> 'is_fixed' = 'false' then $sql$
      set timezone = 'UTC' set datestyle = 'ISO, MDY' set intervalstyle = postgres set extra_float_digits = 1
      set bytea_output = hex set xmlbinary = base64 set lc_monetary = 'C' set lc_numeric = 'C' set lc_time = 'C'$sql$
    end,
    replace(format(
      $body$
declare
  is_changed boolean;
begin
  -- Postgres plans this anew, and so asks selected_by() again, once the table has changed: the plan depends on it.
  -- No plan depends on the name of a function (computed). So concat(), which is stable, has it asked each time.
  perform from (select) as one_row left join changed_rows as t on false
  where audit_log_private.selected_by(%10$s) <> %2$L;
  if found then
    -- A column has another name now, and another column may have its old name.
    execute replace(%3$L::jsonb ->> tg_op, '{selected}', audit_log_private.selected_by(concat(%1$L)));
  elsif tg_op = 'INSERT' then%4$s;
  elsif tg_op = 'DELETE' then%5$s;
  else
    is_changed := %7$s;
    if is_changed then%8$s;
    elsif is_changed is null then%6$s;
    end if;
  end if;
  return null;%9$s
end $body$,
      name, selected, replace(statements::text, '{columns}', '{selected}'), statements ->> 'INSERT',
      statements ->> 'DELETE', statements ->> 'UPDATE', is_changed,
      audit_log_private.logging_statement('update', made, of_one => true),
      case when made ->> 'on_failure' = 'carry_on' then $sql$
exception
  -- Whoever chose such an isolation repeats the transaction, and with it the entries.
  when serialization_failure then raise;
  when others then
    perform audit_log_private.note_failure(
      format('%I.%I', tg_table_schema, tg_table_name), sqlstate || ': ' || sqlerrm
    );
    return null;$sql$ end, format(case when made ? 'computed' then 'concat(%L)' else '%L' end, name)
    ), '{columns}', selected)
  );
end $fn$;
comment on function audit_log_private.make_trigger_function is 'Makes the trigger function of a table.';

create function audit_log_private.follow_renames() returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  perform audit_log_private.make_trigger_function(p.proname, l.arguments)
  from audit_log_private.logged_tables() l
  join pg_proc p on p.oid = l.trigger_function and pg_has_role(p.proowner, 'usage')
  where position(quote_literal(audit_log_private.selected_by(p.proname)) in p.prosrc) = 0;
end $$;
comment on function audit_log_private.follow_renames is 'Makes the trigger functions of renamed columns anew.';

create function audit_log_private.unlog_table(logged regclass) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp set client_min_messages = warning as $$
begin
  execute coalesce((
    select string_agg(format(
      'drop function audit_log_private.%1$I() cascade; drop function if exists audit_log_private.%1$I(jsonb)', p.proname
    ), ';')
    from audit_log_private.logged_tables() l join pg_proc p on p.oid = l.trigger_function
    where l.logged = unlog_table.logged
  ), '');
end $$;
comment on function audit_log_private.unlog_table is 'Ends what log_table began, if it did. Entries stay.';

create function audit_log_private.make_triggers(logged regclass, made jsonb) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp set quote_all_identifiers = off as $fn$
declare
  name name := 'logged_' || (select c.relname from pg_class c where c.oid = logged);
begin
  if to_regprocedure(format('audit_log_private.%I()', name)) is not null then
    -- Of another table with such a name.
    name := left(name, 19) || '_' || logged::oid;
  end if;
  execute format(
    'create function audit_log_private.%I(jsonb) returns void language sql set search_path = pg_catalog, pg_temp '
    'begin atomic select %s %s as computed from %s as t; end', name, made ->> 'columns',
    case when made ? 'computed'
      then format('audit_log_private.require_computed(%L, %s($1))', made ->> 'fields', made ->> 'computed')
      else 'jsonb ''{}''' end,
    logged
  );
  perform audit_log_private.make_trigger_function(name, made);
  execute format(
    'comment on function audit_log_private.%1$I() is %2$L; '
    'revoke all on function audit_log_private.%1$I(), audit_log_private.%1$I(jsonb) '
    'from public, anon, authenticated, service_role', name, made
  );
  execute (
    select string_agg(format(
      'create trigger audit_log_on_%1$s after %1$s on %2$s referencing %3$s for each statement '
      'when (%4$L::regprocedure is not null) execute function audit_log_private.%5$I()',
      e.event, logged, e.tables, format('audit_log_private.%I(jsonb)', name), name
    ), ';')
    from (values
      ('insert', 'new table as changed_rows'), ('delete', 'old table as changed_rows'),
      ('update', 'old table as former_rows new table as changed_rows')
    ) as e (event, tables)
    where made ? ('on_' || e.event)
  );
end $fn$;
comment on function audit_log_private.make_triggers is 'Makes the triggers of a table, and their functions.';

create function audit_log_private.log_table(
  logged regclass,
  on_failure text,
  organization text default null,
  agent_name text default null,
  on_insert text default null,
  on_update text default null,
  on_delete text default null,
  person text default null,
  data text default '',
  changes text default '',
  computed text default null
) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp set quote_all_identifiers = off as $fn$
declare
  made constant jsonb := audit_log_private.with_generated(logged, jsonb_strip_nulls(jsonb_build_object(
    'logged', logged, 'on_failure', on_failure, 'on_insert', on_insert, 'on_update', on_update, 'on_delete', on_delete,
    'organization', organization, 'agent_name', agent_name, 'person', person, 'data', data, 'computed', computed,
    'changes', case when on_update is not null then changes end
  )));
  names constant text[] := (made ->> 'names')::text[];
  logged_names constant text[] := names || (made ->> 'changed')::text[];
  problem constant text := case
    when logged::text ~ '^audit_log(_private)?[.]' then 'not a table of the platform'
    when (on_failure in ('refuse', 'carry_on')) is not true then 'on_failure is refuse or carry_on'
    when not made ? 'organization'
      then 'say to which organization a row belongs (organization). If it has none, see docs/logging.md'
    when made ->> 'repeats' = 'true'
      then 'organization, agent_name and person name one column each, and data and changes no name twice'
    when coalesce(on_insert, on_update, on_delete) is null then 'give on_insert, on_update or on_delete'
    when computed is null and made ->> 'fields' <> '{}'
      then format('the table does not store %s', array_to_string((made ->> 'fields')::text[], ', '))
    when computed is not null
      and pg_get_function_result(to_regprocedure(computed || '(jsonb)')) is distinct from 'jsonb'
      then format('there is no function %s(jsonb) that returns jsonb', computed)
    when exists (select from unnest(names) as n where n in ('caller', 'changes') or starts_with(n, 'audit_log_'))
      then 'the names caller and changes in data are reserved, and those that begin with audit_log_'
    -- Leaves each value some bytes, and the caller 1,500.
    when octet_length(to_jsonb(logged_names)::text) + 24 * cardinality(logged_names) > 2500
      then 'data and changes have too many columns for the 4096 bytes of an entry'
    else (
      select min(audit_log_private.required_but_missing(a, names))
      from unnest(array[on_insert, on_update, on_delete]) as a
    )
  end;
begin
  if problem is not null then
    raise exception 'log_table(%): %', logged, problem using errcode = 'invalid_parameter_value';
  end if;
  perform audit_log_private.unlog_table(logged);
  perform audit_log_private.make_triggers(logged, made);
end $fn$;
comment on function audit_log_private.log_table is
  'Logs a table from now on: docs/logging.md has the arguments. A repeat replaces the first call. Raises 22023.';

-- From supabase/schemas/6_console/01_console.sql.

-- What administrators and auditors read of their organization. Their reads are counted like those of keys.

create function audit_log_private.list_organizations() returns json
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  is_valid constant boolean := audit_log_private.is_valid_session() is true;
begin
  perform audit_log_private.refuse_conditions();
  return (
    select coalesce(json_agg(
      json_build_object(
        'id', audit_log.organization_uuid(m.id), 'organization_id', coalesce(o.platform_id, m.id),
        'name', audit_log_private.name_or_unnamed(m.name), 'role', m.role,
        'is_admin', is_valid and audit_log_private.role_may(m.role, for_admins => true),
        'may_read', is_valid and audit_log_private.role_may(m.role, for_admins => false)
      )
      order by audit_log_private.name_or_unnamed(m.name), m.id
    ), '[]')
    from audit_log_private.my_organizations() m
    left join audit_log.organizations o on o.id = audit_log.organization_uuid(m.id)
    where (audit_log_private.caller()).id is not null and m.id is not null
      and (o.id is null or o.closed_at is null and o.platform_id in (m.id, lower(m.id)))
  );
end $$;
comment on function audit_log_private.list_organizations is
  'The organizations of the signed-in person (docs/keys.md). is_admin and may_read are false without a second '
  'factor, if there is one.';

create function audit_log_private.read_audit_log(organization_id uuid, query json) returns json
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  read audit_log_private.reading;
begin
  perform audit_log_private.require_access(organization_id, for_admins => false);
  read := audit_log_private.read_resource(organization_id, 'entries', audit_log_private.checked_query(query));
  perform audit_log_private.require_accepted(read.decision);
  perform audit_log_private.count_read(organization_id, read.entries);
  -- Items as text, because a client's parser would round long numbers in data.
  return json_build_object('total', read.total, 'items', read.items, 'cursor', read.cursor, 'has_more', read.has_more);
end $$;
comment on function audit_log_private.read_audit_log is
  'A page of an organization''s log, or with after of the feed: {total, items, cursor, has_more}. items is the text '
  'of a JSON array (docs/keys.md). For administrators and auditors.';

create function audit_log_private.read_entry(organization_id uuid, created_at text, id uuid) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  line text;
begin
  perform audit_log_private.require_access(organization_id, for_admins => false);
  line := audit_log_private.line_of(
    organization_id, date_trunc('milliseconds', audit_log_private.utc_time(created_at)), id
  );
  perform audit_log_private.count_read(organization_id, (line is not null)::integer);
  return line;
end $$;
comment on function audit_log_private.read_entry is
  'One entry as JSON text; null if there is none. For administrators and auditors.';

create function audit_log_private.find_persons(organization_id uuid, prefix text) returns json
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
  set plan_cache_mode = 'force_generic_plan' set jit = off as $$
declare
  wanted constant text := lower(prefix collate "C");
  person text := wanted;
  persons text[] := array[]::text[];
begin
  perform audit_log_private.require_access(organization_id, for_admins => false);
  -- Each step is a seek in the index to the next person, however many entries each has.
  while cardinality(persons) < 10 loop
    select lower(e.user_email) into person from audit_log.audit_entries e
    where e.organization_id = find_persons.organization_id and lower(e.user_email) >= person
    order by lower(e.user_email) limit 1;
    exit when not found or not starts_with(person, wanted);
    persons := persons || person;
    -- The least text that is greater.
    person := person || chr(1);
  end loop;
  perform audit_log_private.count_read(organization_id, 0);
  return to_json(persons);
end $$;
comment on function audit_log_private.find_persons is
  'The first ten persons in the log whose address begins with a prefix. For administrators and auditors.';

create function audit_log_private.count_days(organization_id uuid, query audit_log.page_query) returns json
-- Stable: total and items belong to the same moment.
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  has_counts constant boolean := query.user_email is null and not audit_log_private.searches(query);
  matching audit_log_private.matching;
  first_hour timestamp;
  last_hour timestamp;
begin
  query.after := null;
  matching := audit_log_private.count_matching(organization_id, query);
  perform audit_log_private.require_accepted(matching.decision);
  -- The counts have whole hours: the first one loses what lies before since, the last one what does not precede until.
  first_hour := date_trunc('hour', query.since at time zone 'UTC');
  last_hour := date_trunc('hour', query.until at time zone 'UTC');
  return json_build_object('total', matching.total, 'items', (
    select coalesce(json_agg(json_strip_nulls(to_json(t)) order by t.day), '[]') from (
      select p.hour::date as day, sum(p.entries) as entries
      from (
        select h.hour, h.entries from audit_log_private.entry_counts c
        cross join lateral (
          select c.day + (u.hour - 1) * interval '1 hour' as hour, u.entries
          from unnest(
            case when c.day in (first_hour::date, last_hour::date) then c.hours else array[c.entries] end
          ) with ordinality as u (entries, hour)
        ) as h
        where has_counts and c.organization_id = count_days.organization_id
          and c.day between first_hour::date and last_hour::date and h.hour >= first_hour and h.hour < last_hour
          and (query.actions is null or c.action = any (query.actions))
        union all
        select first_hour, -matching.earlier_in_its_hour where matching.earlier_in_its_hour > 0
        union all
        select last_hour, b.in_its_hour
        from audit_log_private.count_before(organization_id, query.actions, query.until) as b
        where has_counts
        union all
        select p.created_at at time zone 'UTC', 1 from unnest(matching.places) as p
        union all
        select e.created_at at time zone 'UTC', 1
        from audit_log.audit_entries e
        where e.organization_id = count_days.organization_id and lower(e.user_email) = query.user_email
          and not audit_log_private.searches(query)
          -- As in count_matching.
          and (e.created_at, e.id) >= (query.since, '00000000-0000-0000-0000-000000000000')
          and e.created_at < query.until
          and (query.actions is null or e.action = any (query.actions))
      ) as p
      group by 1 having sum(p.entries) <> 0
    ) as t
  ));
end $$;
comment on function audit_log_private.count_days is
  'How many entries match a query, as audit_log.daily_entry_counts returns them. query: as checked_query gives it.';

create function audit_log_private.daily_entry_counts(organization_id uuid, query json) returns json
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  counts json;
begin
  perform audit_log_private.require_access(organization_id, for_admins => false);
  counts := audit_log_private.count_days(organization_id, audit_log_private.checked_query(query));
  -- Counts between two milliseconds tell what a page would.
  perform audit_log_private.count_read(organization_id, 0);
  return counts;
end $$;
comment on function audit_log_private.daily_entry_counts is
  'How many entries match a query, in all and on each UTC day. For administrators and auditors.';

create function audit_log_private.list_actions(organization_id uuid) returns json
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform audit_log_private.require_access(organization_id, for_admins => false);
  return (audit_log_private.read_actions()).items::json;
end $$;
comment on function audit_log_private.list_actions is 'The actions of entries, for administrators and auditors.';

create function audit_log_private.list_seals(organization_id uuid, query json) returns json
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  read audit_log_private.reading;
begin
  perform audit_log_private.require_access(organization_id, for_admins => false);
  read := audit_log_private.read_seals(organization_id, audit_log_private.checked_query(query));
  return (
    select json_build_object(
      'total', read.total, 'altered', read.altered, 'items', read.items::json, 'altered_at', days.altered_at,
      'sealed_after', days.sealed_after, 'keep_days', o.keep_days, 'hold_reason', o.hold_reason,
      'days', days.sealed, 'latest', (
        select audit_log_private.seal_json(s) from audit_log_private.chain_end(list_seals.organization_id) as s
        where s.sequence is not null
      )
    )
    from (
      select count(*) as sealed,
        json_object_agg(d.day, audit_log_private.api_time(d.altered_at))
          filter (where d.altered_at is not null) as altered_at,
        json_object_agg(d.day, d.sealed_after) filter (where d.sealed_after is not null) as sealed_after
      from audit_log_private.sealed_days d where d.organization_id = list_seals.organization_id
    ) as days
    left join audit_log.organizations o on o.id = list_seals.organization_id
  );
end $$;
comment on function audit_log_private.list_seals is
  'A page of the seals of a query''s days. `latest` is the end of the chain; `sealed_after`, for a day that was empty '
  'then, the later day that was sealed before it. For administrators and auditors.';

select audit_log_private.serve(name)
from unnest(
  '{list_organizations,read_audit_log,read_entry,find_persons,daily_entry_counts,list_actions,list_seals}'::text[]
) as name;

-- From supabase/schemas/7_running/01_restoring.sql.

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

-- From supabase/schemas/7_running/02_rooms.sql.

-- That there is no room that may be left out. Such a room has a migration of its own, which replaces these functions.

create function audit_log_private.delete_more_of(organization_id uuid) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
end $$;
comment on function audit_log_private.delete_more_of is 'For close_organization: deletes what else sends entries.';

create function audit_log_private.mark_more_without_account() returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
end $$;
comment on function audit_log_private.mark_more_without_account is 'For follow_deleted_accounts: what else they own.';

create function audit_log_private.mark_more_of_leaver(organization_id uuid, person text, revoke boolean) returns jsonb
language sql volatile set search_path = pg_catalog, pg_temp
return jsonb '{}';
comment on function audit_log_private.mark_more_of_leaver is 'For person_left: marks or ends what else somebody owns.';

create function audit_log_private.has_more_readers(organization_id uuid) returns boolean
language sql stable set search_path = pg_catalog, pg_temp
return false;
comment on function audit_log_private.has_more_readers is 'For health(): whether something else reads a log.';

create function audit_log_private.more_findings() returns jsonb
language sql stable set search_path = pg_catalog, pg_temp
return jsonb '{}';
comment on function audit_log_private.more_findings is 'For health(): its fields, by name.';

create function audit_log_private.more_alerts() returns table (severity text, field text)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
end $$;
comment on function audit_log_private.more_alerts is 'For health(): the alerts among more_findings.';

create function audit_log_private.more_metrics()
returns table (name text, help text, labels jsonb, value double precision)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
end $$;
comment on function audit_log_private.more_metrics is 'For metrics_text().';

-- From supabase/schemas/7_running/03_deletion.sql.

-- Deletes old entries, and organizations that leave. A hold forbids both. As in the upkeep, one call does one bounded
-- piece, and its caller commits (docs/operating.md). It is safe beside writers, readers and the upkeep.

create function audit_log_private.log_settings() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  request constant record := audit_log_private.request_context();
begin
  insert into audit_log.actions (code, description)
  values
    ('retention_changed', 'The platform changed after how many days entries are deleted'),
    ('hold_changed', 'The platform set, changed or ended a hold, which keeps entries from being deleted')
  on conflict do nothing;
  insert into audit_log.audit_entries (organization_id, action, user_email, agent_name, data)
  select
    new.id, s.action, coalesce(request.email, request.fallback_email), 'Audit log settings',
    audit_log_private.fitted(jsonb_build_object(
      'changes', jsonb_build_object(s.name, jsonb_build_array(s.before, s.after)), 'database_role', session_user
    ) || request.data)
  from (
    values
      ('retention_changed', 'keep_days', to_jsonb(old.keep_days), to_jsonb(new.keep_days)),
      ('hold_changed', 'hold_reason', to_jsonb(old.hold_reason), to_jsonb(new.hold_reason))
  ) as s (action, name, before, after)
  where s.before is distinct from s.after;
  return null;
end $$;
comment on function audit_log_private.log_settings is 'Logs a change of retention or of a hold.';

-- Also without logs_key_events: an auditor has to see how long entries are kept. A closed log takes no entry.
create trigger log_settings
  after update of keep_days, hold_reason on audit_log.organizations
  for each row when (
    (new.keep_days, new.hold_reason) is distinct from (old.keep_days, old.hold_reason) and new.closed_at is null
  )
  execute function audit_log_private.log_settings();

create function audit_log_private.delete_first_entries(
  organization_id uuid, range_start date, range_end date
) returns bigint
-- Planned for each range: a generic plan knows no sizes, and might read the whole table.
language plpgsql volatile set search_path = pg_catalog, pg_temp set plan_cache_mode = 'force_custom_plan' as $$
declare
  first_time constant timestamptz := range_start::timestamp at time zone 'UTC';
  end_time constant timestamptz := range_end::timestamp at time zone 'UTC';
  last audit_log_private.place;
  deleted bigint;
begin
  select e.created_at, e.id into last from audit_log.audit_entries e
  where e.organization_id = delete_first_entries.organization_id
    and e.created_at >= first_time and e.created_at < end_time
  order by e.created_at, e.id limit 1 offset 9999;
  if not found then
    last := audit_log_private.place_before(end_time);
  end if;
  delete from audit_log.audit_entries e
  where e.organization_id = delete_first_entries.organization_id
    and e.created_at >= first_time and (e.created_at, e.id) <= (last.created_at, last.id);
  get diagnostics deleted = row_count;
  return deleted;
end $$;
comment on function audit_log_private.delete_first_entries is 'Deletes at most 10,000 entries, the oldest first.';

create function audit_log_private.delete_old_days(organization_id uuid, range_end date) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp set plan_cache_mode = 'force_custom_plan' as $$
declare
  first_day date;
  last_day date;
begin
  -- The counts tell where to begin, because until the next vacuum the index still has what earlier pieces deleted. And
  -- where to end: a day that fits into a piece is deleted in one, so that nothing seals the rest of it in between.
  select min(d.day), max(d.day) filter (where d.running_total <= 10000) into first_day, last_day from (
    select c.day, sum(sum(c.entries)) over (order by c.day) as running_total from audit_log_private.entry_counts c
    where c.organization_id = delete_old_days.organization_id and c.day < delete_old_days.range_end
    group by c.day having sum(c.entries) > 0
  ) as d;
  if audit_log_private.delete_first_entries(organization_id, first_day, coalesce(last_day, first_day) + 1) > 0 then
    return true;
  end if;
  -- Entries that the counts miss, if they are wrong.
  return audit_log_private.delete_first_entries(organization_id, '-infinity', range_end) > 0;
end $$;
comment on function audit_log_private.delete_old_days is
  'Deletes the oldest days of 10,000 entries together, or 10,000 entries of a longer one. Returns whether it did.';

create function audit_log_private.lock_for_deletion(organization_id uuid) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  hold_reason text;
begin
  -- One piece at a time. Writers do not wait, because they only take a key share lock. The owner who sets a hold waits,
  -- and the next piece finds it: an older snapshot (repeatable read) fails here.
  select o.hold_reason into hold_reason from audit_log.organizations o
  where o.id = lock_for_deletion.organization_id for no key update;
  if not found then
    raise exception 'there is no organization %', coalesce(organization_id::text, 'null: give its id')
      using errcode = 'P0002';
  end if;
  if hold_reason is not null then
    raise exception 'organization % is on hold, so nothing of it may be deleted: %', organization_id, hold_reason
      using errcode = 'object_in_use';
  end if;
end $$;
comment on function audit_log_private.lock_for_deletion is 'Other deletions wait. Raises P0002, or 55006 if on hold.';

create function audit_log_private.delete_entries_before(organization_id uuid, day date) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  if (day <= (clock_timestamp() at time zone 'UTC')::date) is not true then
    raise exception 'entries before % cannot be deleted: give a day that is not in the future (UTC)',
      coalesce(day::text, 'null') using errcode = 'invalid_parameter_value';
  end if;
  perform audit_log_private.lock_for_deletion(organization_id);
  return audit_log_private.delete_old_days(organization_id, day);
end $$;
comment on function audit_log_private.delete_entries_before is
  'Deletes one piece of the entries before a UTC day. Returns whether there may be more.';

create function audit_log_private.delete_expired(organization_id uuid) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  today constant date := clock_timestamp() at time zone 'UTC';
  days integer;
begin
  delete from audit_log_private.log_reads r
  where r.organization_id = delete_expired.organization_id and r.day < today - 400;
  update audit_log_private.rate_limits r
  set day = null, requests = 0, invalid_requests = 0, refused_requests = 0, entries = 0,
    first_at = null, last_at = null, last_address = null
  where r.organization_id = delete_expired.organization_id and r.day < today - 400;
  -- Another deletion may be at work, and must not be waited for. What it leaves is deleted the next night.
  select o.keep_days into days from audit_log.organizations o
  where o.id = delete_expired.organization_id and o.keep_days is not null and o.hold_reason is null
  for no key update skip locked;
  if days is null then
    return false;
  end if;
  return audit_log_private.delete_old_days(organization_id, today - days);
end $$;
comment on function audit_log_private.delete_expired is
  'Deletes old reads, and one piece of what is older than keep_days. Returns whether it deleted any entry.';

create function audit_log_private.try_to_close(organization_id uuid) returns boolean
-- lock_timeout: others may hold what is ended below while they wait for the organization.
language plpgsql volatile set search_path = pg_catalog, pg_temp set lock_timeout = '10ms' as $$
begin
  -- A writer locks the row of counts that it updates; if it inserts one, it locks the organization. So does whoever
  -- creates what is ended below.
  perform from audit_log.organizations o where o.id = try_to_close.organization_id for update skip locked;
  if not found then
    raise exception using errcode = 'lock_not_available';
  end if;
  update audit_log_private.api_keys k set revoked_at = clock_timestamp()
  where k.organization_id = try_to_close.organization_id and k.revoked_at is null;
  perform audit_log_private.delete_more_of(organization_id);
  -- Makes writers look the organization up again.
  update audit_log_private.entry_counts c set required_path = null
  where c.organization_id = try_to_close.organization_id
    and (c.day, c.action, c.writer_pid, c.part) in (
      select w.day, w.action, w.writer_pid, w.part from audit_log_private.entry_counts w
      where w.organization_id = try_to_close.organization_id
        and w.writer_pid <> 0 and w.required_path is not null
      for update skip locked
    );
  perform from audit_log_private.entry_counts c
  where c.organization_id = try_to_close.organization_id and c.writer_pid <> 0 and c.required_path is not null;
  if found then
    -- Gives back what it has locked: a writer that is waited for may need it.
    raise exception using errcode = 'lock_not_available';
  end if;
  update audit_log.organizations o set closed_at = clock_timestamp()
  where o.id = try_to_close.organization_id and o.closed_at is null;
  return true;
exception
  when lock_not_available then
    return false;
end $$;
comment on function audit_log_private.try_to_close is 'Closes an organization, or returns false: a writer is at work.';

create function audit_log_private.close_organization(platform_id text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  organization_id constant uuid := audit_log_private.organization_named(platform_id);
begin
  -- Of what the log does not know, nobody could read anything.
  for attempt in 1 .. 100 loop
    if organization_id is null or audit_log_private.try_to_close(organization_id) then
      return;
    end if;
    perform pg_sleep(0.05);
  end loop;
  raise exception 'a writer has not committed for 5 seconds: try again' using errcode = 'lock_not_available';
end $$;
comment on function audit_log_private.close_organization is
  'Lets nobody read or write a log until the owner sets closed_at to null. The platform may give the id to another '
  'customer. Raises 55P03 if a writer does not commit.';

create function audit_log_private.delete_organization(organization_id uuid) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  organization audit_log.organizations;
begin
  perform audit_log_private.lock_for_deletion(organization_id);
  select o.* into strict organization from audit_log.organizations o where o.id = organization_id;
  if organization.leaving_at is null then
    -- A piece of its own: from its commit on, nobody has access, nothing is sent, and nobody writes.
    perform audit_log_private.close_organization(organization.platform_id);
    update audit_log.organizations o set leaving_at = clock_timestamp()
    where o.id = delete_organization.organization_id;
    delete from audit_log_private.api_keys k where k.organization_id = delete_organization.organization_id;
    delete from audit_log.organization_members m
    where organization.platform_id in (m.organization_id, lower(m.organization_id))
      and audit_log.organization_uuid(m.organization_id) = organization.id;
    return true;
  end if;
  -- Locked against the upkeep, which must not find the organization gone, before it waits for the organization's lock.
  perform pg_advisory_xact_lock('audit_log_private.entry_counts'::regclass::oid::bigint);
  perform audit_log_private.delete_old_days(organization_id, 'infinity');
  -- From the end, because until the next vacuum the beginning of the index is full of deleted entries.
  perform from audit_log.audit_entries e
  where e.organization_id = delete_organization.organization_id
  order by e.created_at desc, e.id desc limit 1;
  if found then
    return true;
  end if;
  set constraints audit_log_private.refuse_deletion deferred;
  delete from audit_log_private.seals s where s.organization_id = delete_organization.organization_id;
  delete from audit_log_private.entry_counts c where c.organization_id = delete_organization.organization_id;
  delete from audit_log_private.removed_entries r where r.organization_id = delete_organization.organization_id;
  delete from audit_log.organizations o where o.id = delete_organization.organization_id;
  set constraints audit_log_private.refuse_deletion immediate;
  return false;
end $$;
comment on function audit_log_private.delete_organization is
  'Deletes an organization, one piece at a time. Returns whether there is more. Raises P0002, 55006 while on hold, '
  '55P03 if a writer does not commit.';

-- From supabase/schemas/7_running/04_leavers.sql.

-- What happens to the API keys of a person who leaves an organization.

create function audit_log.person_left(organization_id text, person text, revoke boolean default false) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  organization constant uuid := audit_log_private.organization_named(organization_id);
begin
  -- As in rotate_api_key.
  perform set_config('synchronous_commit', 'on', true);
  return jsonb_build_object('keys', audit_log_private.mark_keys_of_leaver(organization, person, revoke))
    || audit_log_private.mark_more_of_leaver(organization, person, revoke);
end $$;
comment on function audit_log.person_left is
  'Says that a person, an id as caller() gives it, has left an organization: marks what the person owns, or with '
  'revoke ends it. Returns how much. For service_role, and triggers of the database''s owner.';

create function audit_log_private.follow_deleted_accounts() returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  perform audit_log_private.mark_keys_of_leaver(k.organization_id, k.created_by, revoke => false)
  from audit_log_private.api_keys k
  where k.owner_has_account and k.owner_left_at is null and audit_log_private.is_live(k.revoked_at, k.expires_at)
    and not audit_log_private.has_account(k.created_by)
  group by k.organization_id, k.created_by;
  perform audit_log_private.mark_more_without_account();
end $$;
comment on function audit_log_private.follow_deleted_accounts is 'Does what person_left does for deleted accounts.';

create function audit_log_private.call_person_left() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if (new.organization_id, new.user_id, new.role) is distinct from (old.organization_id, old.user_id, old.role) then
    perform audit_log.person_left(old.organization_id, old.user_id);
  end if;
  return null;
end $$;
comment on function audit_log_private.call_person_left is 'Calls person_left for an administrator who is none now.';

create trigger call_person_left
  after update or delete on audit_log.organization_members
  for each row when (old.role = 'admin')
  execute function audit_log_private.call_person_left();

-- From supabase/schemas/7_running/05_upkeep.sql.

-- Upkeep: regular work in bounded pieces, so that no piece holds locks for long, however much there is to do. A
-- function with a search_path cannot commit, so its caller commits after each piece (docs/operating.md).

create table audit_log_private.upkeep_state (
  is_only boolean primary key default true check (is_only),
  -- Before the first run, when the service was installed.
  last_run_at timestamptz not null default clock_timestamp(),
  -- When the run in progress began.
  started_at timestamptz,
  -- A run passes over the organizations twice: it deletes and compacts, then it seals and compares.
  is_first_pass boolean not null default true,
  -- The last organization that this pass is done with.
  done_until uuid
);
comment on table audit_log_private.upkeep_state is 'One row: the last upkeep, and how far the present one is.';

insert into audit_log_private.upkeep_state default values;

create function audit_log_private.run_upkeep() returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  clock constant timestamptz := clock_timestamp();
  state record;
  -- Counts to compact, or entries to seal, in one piece.
  piece integer;
  next record;
  work bigint;
  done bigint := 0;
  organizations integer := 0;
begin
  -- Not in a restored database before it is adopted: its snapshots may not see entries of another cluster.
  perform audit_log_private.cursor_key('');
  -- Several runs at once take turns, piece by piece.
  perform pg_advisory_xact_lock('audit_log_private.entry_counts'::regclass::oid::bigint);
  insert into audit_log_private.upkeep_state default values on conflict do nothing;
  select u.* into strict state from audit_log_private.upkeep_state u;
  -- A run that was interrupted starts from the first organization after half a day. It finds the finished work done.
  if (state.started_at > clock - interval '12 hours') is not true then
    select clock, true, null::uuid into state.started_at, state.is_first_pass, state.done_until;
  end if;
  piece := case when state.is_first_pass then 1000 else 20000 end;
  for next in
    select o.id from audit_log.organizations o
    where state.done_until is null or o.id > state.done_until
    order by o.id limit 1000
  loop
    organizations := organizations + 1;
    -- Two passes, because writers of late entries wait for what compacts their counts, and a long day is sealed slowly.
    if state.is_first_pass then
      -- Deletions come first: then the same run compacts their counts, and declares them with new seals.
      work := case when audit_log_private.delete_expired(next.id) then 1000
        else audit_log_private.compact_entry_counts(next.id) end;
    else
      work := audit_log_private.seal_and_compare(next.id);
    end if;
    done := done + work;
    -- It may have more to do, and is the first of the next piece.
    exit when work >= piece;
    state.done_until := next.id;
    exit when done >= piece;
  end loop;
  if done < piece and organizations < 1000 then
    if not state.is_first_pass then
      perform audit_log_private.follow_renames();
      perform audit_log_private.follow_deleted_accounts();
      update audit_log_private.upkeep_state
      set last_run_at = clock_timestamp(), started_at = null, is_first_pass = true, done_until = null
      where is_only;
      return false;
    end if;
    state.is_first_pass := false;
    state.done_until := null;
  end if;
  update audit_log_private.upkeep_state
  set started_at = state.started_at, is_first_pass = state.is_first_pass, done_until = state.done_until
  where is_only;
  return true;
end $$;
comment on function audit_log_private.run_upkeep is 'Does a piece of all upkeep. Returns whether there may be more.';

create function audit_log_private.seal_and_compare(organization_id uuid) returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  clock constant timestamptz := clock_timestamp();
  next record;
  work bigint := 0;
begin
  -- No day waits longer. What seems to was compared while the clock was ahead.
  update audit_log_private.sealed_days d set check_at = clock
  where d.organization_id = seal_and_compare.organization_id and d.check_at > clock + interval '31 days';
  -- One query a piece: each passes the rows that earlier ones deleted. An almost empty day costs like 100 entries.
  for next in
    (
      select d.day from audit_log_private.days_to_seal d
      where d.organization_id = seal_and_compare.organization_id order by d.day limit 200
    )
    union all
    (
      -- Sealed days are compared with their seals.
      select d.day from audit_log_private.sealed_days d
      where d.organization_id = seal_and_compare.organization_id and d.check_at <= clock
        and d.day <> all (
          select s.day from audit_log_private.days_to_seal s
          where s.organization_id = seal_and_compare.organization_id
        )
      order by d.check_at limit 200
    )
  loop
    work := work + 100 + audit_log_private.seal_day(organization_id, next.day);
    delete from audit_log_private.days_to_seal d
    where d.organization_id = seal_and_compare.organization_id and d.day = next.day;
    exit when work >= 20000;
  end loop;
  if work < 20000 and audit_log_private.queue_missed_days(organization_id) then
    return 20000;
  end if;
  return work;
end $$;
comment on function audit_log_private.seal_and_compare is 'A piece of the second pass; from 20,000, there may be more.';

create function audit_log_private.compact_entry_counts(organization_id uuid) returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  today constant date := clock_timestamp() at time zone 'UTC';
  compacted bigint;
begin
  -- Most have none, and then nothing is locked.
  perform from audit_log_private.entry_counts c
  where c.organization_id = compact_entry_counts.organization_id and c.writer_pid <> 0 and c.day < today limit 1;
  if not found then
    return 0;
  end if;
  perform pg_advisory_xact_lock('audit_log_private.entry_counts'::regclass::oid::bigint);
  perform from audit_log.organizations o where o.id = compact_entry_counts.organization_id for key share skip locked;
  if not found then
    return 0;
  end if;
  with partial as materialized (
    -- Waits for no writer and no deletion, so it cannot be part of a deadlock.
    select c.day, c.action, c.writer_pid, c.part from audit_log_private.entry_counts c
    where c.organization_id = compact_entry_counts.organization_id and c.writer_pid <> 0 and c.day < today
    order by c.day, c.action
    -- A constant, not a parameter: a generic plan might read and sort the whole backlog.
    limit 1000
    for update skip locked
  ),
  queued as (
    insert into audit_log_private.days_to_seal (organization_id, day)
    select distinct compact_entry_counts.organization_id, p.day from partial p
    on conflict do nothing
  ),
  counts as (
    select day, action, writer_pid, part from partial
    union
    -- The row compacted earlier. It is only touched under the advisory lock.
    select day, action, 0, 0 from partial
  ),
  moved as (
    -- Not by ctid: the row may have a newer version than this statement's snapshot.
    delete from audit_log_private.entry_counts c using counts t
    where c.organization_id = compact_entry_counts.organization_id
      and c.day = t.day and c.action = t.action and c.writer_pid = t.writer_pid and c.part = t.part
    returning c.*
  ),
  inserted as (
    insert into audit_log_private.entry_counts (organization_id, day, action, writer_pid, entries, hours)
    select
      h.organization_id, h.day, h.action, 0, sum(h.entries)::integer, array_agg(h.entries order by h.hour)
    from (
      select m.organization_id, m.day, m.action, h.hour, sum(h.entries)::integer as entries
      from moved m cross join unnest(m.hours) with ordinality as h (entries, hour)
      group by m.organization_id, m.day, m.action, h.hour
    ) as h
    group by h.organization_id, h.day, h.action
  ),
  summed as (
    insert into audit_log_private.monthly_entry_counts as s (organization_id, month, action, entries)
    select m.organization_id, date_trunc('month', m.day::timestamp), m.action, sum(m.entries) from moved m
    -- Compacted counts are in the sums already.
    where m.writer_pid <> 0
    group by 1, 2, 3
    on conflict on constraint monthly_entry_counts_pkey do update set entries = s.entries + excluded.entries
  )
  -- Rows that writers hold are left for the next run.
  select count(*) into compacted from partial;
  return compacted;
end $$;
comment on function audit_log_private.compact_entry_counts is
  'Adds up partial counts of finished days, which it queues for their seals. Returns how many.';

create function audit_log_private.entry_count_mismatches(organization_id uuid)
returns table (day date, action text, hour integer, difference bigint)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return query select d.day, d.action, d.hour::integer, sum(d.entries)::bigint
  from (
    select
      (e.created_at at time zone 'UTC')::date as day, e.action,
      extract(hour from e.created_at at time zone 'UTC')::integer as hour,
      count(*) as entries
    from audit_log.audit_entries e
    where e.organization_id = entry_count_mismatches.organization_id
    group by grouping sets ((1, 2, 3), (1, 2))
    union all
    select c.day, c.action, null, -c.entries from audit_log_private.entry_counts c
    where c.organization_id = entry_count_mismatches.organization_id
    union all
    select c.day, c.action, h.hour - 1, -h.entries
    from audit_log_private.entry_counts c cross join unnest(c.hours) with ordinality as h (entries, hour)
    where c.organization_id = entry_count_mismatches.organization_id
    union all
    select date_trunc('month', c.day::timestamp)::date, c.action, -1, c.entries from audit_log_private.entry_counts c
    where c.organization_id = entry_count_mismatches.organization_id and c.writer_pid = 0
    union all
    select s.month, s.action, -1, -s.entries from audit_log_private.monthly_entry_counts s
    where s.organization_id = entry_count_mismatches.organization_id
  ) as d
  group by d.day, d.action, d.hour having sum(d.entries) <> 0;
end $$;
comment on function audit_log_private.entry_count_mismatches is
  'Where an organization''s counts differ from its entries, in one snapshot. hour: 0 to 23; null for the whole day; '
  '-1 for the month that begins on that day. difference: how many entries the counts lack.';

create function audit_log_private.repair_entry_counts(organization_id uuid) returns bigint
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  repaired bigint;
begin
  -- Two repairs at once would both add the difference, so they take turns, and each must read after the
  -- lock. Writers need not wait: they change entries and counts alike, which leaves the difference as it is.
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'repair_entry_counts needs read committed' using errcode = 'invalid_transaction_state';
  end if;
  perform pg_advisory_xact_lock('audit_log_private.entry_counts'::regclass::oid::bigint);
  perform from audit_log.organizations o where o.id = repair_entry_counts.organization_id for key share;
  with repaired_counts as (
    insert into audit_log_private.entry_counts as c (organization_id, day, action, writer_pid, entries, hours)
    select
      repair_entry_counts.organization_id, e.day, e.action, 0,
      coalesce(sum(e.difference) filter (where e.hour is null), 0),
      array(
        select coalesce(sum(d.difference) filter (where d.hour = h), 0)
        from generate_series(0, 23) as h, unnest(array_agg(e.hour), array_agg(e.difference)) as d (hour, difference)
        group by h order by h
      )
    from audit_log_private.entry_count_mismatches(repair_entry_counts.organization_id) e
    where e.hour is distinct from -1
    group by e.day, e.action
    on conflict on constraint entry_counts_pkey do update
    set entries = c.entries + excluded.entries,
      hours = array(select a + b from unnest(c.hours, excluded.hours) with ordinality as s (a, b, h) order by h)
    returning c.day
  ),
  queued as (
    insert into audit_log_private.days_to_seal (organization_id, day)
    select distinct repair_entry_counts.organization_id, r.day from repaired_counts r
    -- An entry that came past the triggers can have any time. The API has these days.
    where r.day >= '0001-01-01' and r.day < (clock_timestamp() at time zone 'UTC')::date
    on conflict do nothing
  )
  select count(*) into strict repaired from repaired_counts;
  delete from audit_log_private.monthly_entry_counts s where s.organization_id = repair_entry_counts.organization_id;
  insert into audit_log_private.monthly_entry_counts (organization_id, month, action, entries)
  select c.organization_id, date_trunc('month', c.day::timestamp), c.action, sum(c.entries)
  from audit_log_private.entry_counts c
  where c.organization_id = repair_entry_counts.organization_id and c.writer_pid = 0
  group by 1, 2, 3;
  return repaired;
end $$;
comment on function audit_log_private.repair_entry_counts is
  'Corrects an organization''s counts, beside writers. Returns how many were wrong.';

-- From supabase/schemas/7_running/06_health.sql.

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
