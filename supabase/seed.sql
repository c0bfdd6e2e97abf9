-- Two organizations to look at, each with an administrator who can sign in and a year of entries up to now. The same on
-- every machine: whatever looks random is a hash of what it is for.
--
-- Their password is public, so this refuses to run where others could sign in. It must see a sign of
-- a local stack: `deno task start` makes the second setting below; `supabase start` the first, which
-- is its well-known secret for JWTs. A hosted project has neither.

do $$
begin
  if current_setting('app.settings.jwt_secret', true)
      is distinct from 'super-secret-jwt-token-with-at-least-32-characters-long'
    and current_setting('app.settings.local_stack', true) is distinct from 'deno task start'
  then
    raise exception 'seed.sql is for a local stack only, and this is none: its password is public. Nothing was written.'
      using errcode = 'insufficient_privilege';
  end if;
  -- Here, so that nothing is written either by a client that goes on after an error, as psql does: all
  -- that follows reads it.
  create temporary table people (user_id uuid, organization_id uuid, organization text, email text);
end
$$;

insert into people values
  (
    'ada00000-0000-4000-8000-000000000001', '0a11ce00-0000-4000-8000-000000000001',
    'Analytical Engines', 'ada@analytical.example'
  ),
  (
    'faced000-0000-4000-8000-000000000002', '0b0b0000-0000-4000-8000-000000000002',
    'Compiler Works', 'grace@compiler.example'
  );

create function pg_temp.chance(subject text) returns double precision
language sql immutable as $$ select ('x' || left(md5(subject), 8))::bit(32)::bigint / 4294967296.0 $$;

create function pg_temp.pick(items text[], subject text) returns text
language sql immutable as $$ select items[1 + floor(pg_temp.chance(subject) * cardinality(items))::int] $$;

insert into auth.users (
  instance_id, id, aud, role, email, encrypted_password, email_confirmed_at,
  raw_app_meta_data, raw_user_meta_data, created_at, updated_at,
  confirmation_token, recovery_token, email_change, email_change_token_new
)
select
  '00000000-0000-0000-0000-000000000000', user_id, 'authenticated', 'authenticated', email,
  extensions.crypt('correct-horse-battery', extensions.gen_salt('bf')), now(),
  '{"provider": "email", "providers": ["email"]}', '{}', now(), now(), '', '', '', ''
from people;

insert into auth.identities (id, provider, provider_id, user_id, identity_data, created_at, updated_at)
select
  gen_random_uuid(), 'email', user_id::text, user_id,
  jsonb_build_object('sub', user_id, 'email', email, 'email_verified', true), now(), now()
from people;

insert into audit_log.organization_members (organization_id, user_id, role, organization_name)
select organization_id, user_id::text, 'admin', organization from people;

-- The agents, and when each was activated.
create temporary table agents as
select
  organization_id,
  name,
  md5('agent ' || organization_id || name)::uuid as id,
  'AG' || md5('sid ' || organization_id || name) as platform_agent_sid,
  date_trunc('day', now(), 'UTC') - days_ago * interval '24 hours' + interval '7 hours 30 minutes' as added_at
from (values
  ('0a11ce00-0000-4000-8000-000000000001'::uuid, 'Support Assistant', 365),
  ('0a11ce00-0000-4000-8000-000000000001', 'Contract Reviewer', 364),
  ('0a11ce00-0000-4000-8000-000000000001', 'Onboarding Guide', 200),
  ('0a11ce00-0000-4000-8000-000000000001', 'Invoice Clerk', 45),
  ('0b0b0000-0000-4000-8000-000000000002', 'Release Notes Writer', 365),
  ('0b0b0000-0000-4000-8000-000000000002', 'Incident Scribe', 120)
) as agent (organization_id, name, days_ago);

update audit_log.actions set
  target = case code when 'agent_added' then 'agent_id' else 'conversation_id' end,
  target_name = case code when 'agent_added' then 'name' else 'title' end
where code in ('agent_added', 'conversation_created', 'message_created', 'feedback_given')
  and exists (select from people);

-- Conversations: many on working days between 8 and 18 o'clock, one a day at the weekend.
create temporary table conversations as
select
  md5('conversation ' || subject)::uuid as id,
  organization_id,
  day + interval '8 hours' + pg_temp.chance('start ' || subject) * interval '9 hours 30 minutes' as started_at,
  pg_temp.pick(people, 'person ' || subject) as user_email,
  1 + floor(6 * pg_temp.chance('length ' || subject))::int as messages,
  pg_temp.pick(array[
    'Refund of an order', 'Terms of a renewal', 'Access for a new colleague', 'A late invoice', 'Release notes',
    'An outage on Monday', 'Plan for the quarter', 'Questions of a customer'
  ], 'title ' || subject) as title,
  subject
from (values
  ('0a11ce00-0000-4000-8000-000000000001'::uuid, 7, array[
    'ada@analytical.example', 'charles@analytical.example', 'mary@analytical.example',
    'augustus@analytical.example', 'annabella@analytical.example']),
  ('0b0b0000-0000-4000-8000-000000000002', 4, array[
    'grace@compiler.example', 'howard@compiler.example', 'jean@compiler.example'])
) as organization (organization_id, busy, people)
cross join generate_series(0, 364) as days_ago
cross join lateral (
  select date_trunc('day', now(), 'UTC') - days_ago * interval '24 hours' as day
) as days
-- By date, so that a day has the same entries whenever the stack was first started, as the pages show them.
cross join lateral (select concat_ws(' ', organization_id, (day at time zone 'UTC')::date) as that_day) as those_days
cross join lateral generate_series(1, case
  when extract(isodow from day at time zone 'UTC') > 5 then 1 else busy * (0.5 + pg_temp.chance(that_day))
end::int) as n
cross join lateral (select concat_ws(' ', that_day, n) as subject) as subjects;

insert into audit_log.audit_entries (id, organization_id, created_at, action, user_email, agent_name, data)
select
  md5(concat(organization_id, created_at, action))::uuid, organization_id, created_at, action, user_email, agent_name,
  data
from (
  select
    conversations.organization_id,
    started_at + (n + 0.5 * pg_temp.chance('pace ' || subject || n)) * interval '1 minute' as created_at,
    action,
    user_email,
    agent.name as agent_name,
    case action
      when 'conversation_created' then jsonb_build_object(
        'conversation_id', conversations.id, 'title', title, 'agent_id', agent.id)
      when 'message_created' then jsonb_build_object(
        'message_id', md5('message ' || subject || n)::uuid, 'conversation_id', conversations.id, 'title', title,
        'agent_id', agent.id, 'platform_agent_sid', agent.platform_agent_sid)
      when 'feedback_given' then jsonb_build_object(
        'message_id', md5('message ' || subject || (n - 1))::uuid, 'conversation_id', conversations.id, 'title', title,
        'feedback', pg_temp.pick(array['up', 'up', 'up', 'down'], 'feedback ' || subject))
    end as data
  from conversations
  cross join lateral (
    select * from agents
    where agents.organization_id = conversations.organization_id and agents.added_at < conversations.started_at
    order by md5(agents.name || subject)
    limit 1
  ) as agent
  cross join generate_series(0, 7) as n
  cross join lateral (
    select case
      when n = 0 then 'conversation_created'
      when n <= messages then 'message_created'
      when n = messages + 1 and pg_temp.chance('rated ' || subject) < 0.4 then 'feedback_given'
    end as action
  ) as steps
  where action is not null
  union all
  select
    agents.organization_id, added_at, 'agent_added', people.email, name,
    jsonb_build_object('agent_id', agents.id, 'name', name, 'platform_agent_sid', platform_agent_sid)
  from agents join people using (organization_id)
) as entries
where created_at <= now()
order by created_at;
