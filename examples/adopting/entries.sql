-- Writes entries from your own tables, in the transaction of the writer: an action is logged if and only if it is
-- committed. Comes after organizations.sql.
--
-- Yours to change: the tables and columns in the selects, and in the inserts at the end. Leave out what you do not
-- have. If a table has no organization_id, join the one that has. Each value passes through custom_text, custom_email,
-- left or coalesce, so that no name, address or missing agent can make your insert fail.

create function audit_log_private.custom_email(value text) returns text language sql immutable
return case when value like '%_@_%' and pg_catalog.char_length(value) <= 320 then value else 'unknown@invalid' end;
comment on function audit_log_private.custom_email is 'An address as the audit log takes it, or one that says that there is none.';

create function audit_log_private.custom_agents() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into audit_log.audit_entries (organization_id, action, user_email, agent_name, data)
  select
    o.id, 'agent_added', audit_log_private.custom_email(u.email), audit_log_private.custom_text(a.name, 'unnamed'),
    jsonb_build_object('agent_id', a.id::text)
  from added a
  left join audit_log.organizations o on o.external_id = a.organization_id::text
  left join auth.users u on u.id = a.created_by;
  return null;
end $$;
comment on function audit_log_private.custom_agents is 'Writes agent_added for new agents.';
create trigger audit_log_insert
  after insert on public.agents referencing new table as added
  for each statement execute function audit_log_private.custom_agents();

create function audit_log_private.custom_conversations() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into audit_log.audit_entries (organization_id, action, user_email, agent_name, data)
  select
    o.id, 'conversation_created', audit_log_private.custom_email(u.email), audit_log_private.custom_text(a.name, 'unnamed'),
    jsonb_build_object('conversation_id', c.id::text, 'agent_id', c.agent_id::text)
  from added c
  left join audit_log.organizations o on o.external_id = c.organization_id::text
  left join public.agents a on a.id = c.agent_id
  left join auth.users u on u.id = c.user_id;
  return null;
end $$;
comment on function audit_log_private.custom_conversations is 'Writes conversation_created for new conversations.';
create trigger audit_log_insert
  after insert on public.conversations referencing new table as added
  for each statement execute function audit_log_private.custom_conversations();

create function audit_log_private.custom_messages() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into audit_log.audit_entries (organization_id, action, user_email, agent_name, data)
  select
    o.id, 'message_created', audit_log_private.custom_email(u.email), audit_log_private.custom_text(a.name, 'unnamed'),
    -- These four must be strings.
    jsonb_build_object(
      'message_id', m.id::text, 'conversation_id', coalesce(m.conversation_id::text, ''),
      'agent_id', coalesce(a.id::text, ''), 'platform_agent_sid', coalesce(left(a.sid, 200), '')
    )
  from added m
  left join public.conversations c on c.id = m.conversation_id
  left join public.agents a on a.id = c.agent_id
  left join audit_log.organizations o on o.external_id = m.organization_id::text
  left join auth.users u on u.id = m.user_id
  -- Answers of the agent have no user.
  where m.user_id is not null;
  return null;
end $$;
comment on function audit_log_private.custom_messages is 'Writes message_created for new messages of people.';
create trigger audit_log_insert
  after insert on public.messages referencing new table as added
  for each statement execute function audit_log_private.custom_messages();

create function audit_log_private.custom_feedback() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into audit_log.audit_entries (organization_id, action, user_email, agent_name, data)
  select
    o.id, 'feedback_given', audit_log_private.custom_email(u.email), audit_log_private.custom_text(a.name, 'unnamed'),
    jsonb_build_object('message_id', f.message_id::text, 'feedback', left(f.thumb::text, 200))
  from added f
  left join public.messages m on m.id = f.message_id
  left join public.conversations c on c.id = m.conversation_id
  left join public.agents a on a.id = c.agent_id
  left join audit_log.organizations o on o.external_id = f.organization_id::text
  left join auth.users u on u.id = f.user_id;
  return null;
end $$;
comment on function audit_log_private.custom_feedback is 'Writes feedback_given for new feedback.';
create trigger audit_log_insert
  after insert on public.feedback referencing new table as added
  for each statement execute function audit_log_private.custom_feedback();

revoke all on function audit_log_private.custom_email, audit_log_private.custom_agents, audit_log_private.custom_conversations,
  audit_log_private.custom_messages, audit_log_private.custom_feedback from public, anon, authenticated, service_role;

-- Fires each trigger with no row, so that a wrong name makes this migration fail, and not your application. Any column
-- will do that is not generated.
insert into public.agents (organization_id) select organization_id from public.agents where false;
insert into public.conversations (organization_id) select organization_id from public.conversations where false;
insert into public.messages (organization_id) select organization_id from public.messages where false;
insert into public.feedback (organization_id) select organization_id from public.feedback where false;
