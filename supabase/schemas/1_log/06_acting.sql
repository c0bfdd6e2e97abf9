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
