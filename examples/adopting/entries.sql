-- Writes entries from your own tables, in the transaction of the writer: an action is logged if and only if it is
-- committed. Comes after values.sql, and after what fills audit_log.organizations.
--
-- Yours to change: the tables and columns in the selects, and in the inserts at the end. Leave out what you do not
-- have. If a table has no organization_id, join the one that has. Each value passes through custom_text, custom_email
-- or custom_value, so that none can make your insert fail. The names in data are those that events.sql uses, too.

create function audit_log_private.custom_agents() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into audit_log.audit_entries (organization_id, action, user_email, agent_name, data)
  select
    o.id, 'agent_added', audit_log_private.custom_email(u.email), audit_log_private.custom_text(a.name, 'unnamed'),
    jsonb_build_object('agent_id', a.id::text, 'platform_agent_sid', audit_log_private.custom_value(a.sid))
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
    jsonb_build_object('conversation_id', c.id::text, 'agent_id', audit_log_private.custom_value(c.agent_id::text))
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
      'message_id', m.id::text, 'conversation_id', audit_log_private.custom_value(m.conversation_id::text),
      'agent_id', audit_log_private.custom_value(a.id::text), 'platform_agent_sid', audit_log_private.custom_value(a.sid)
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
    jsonb_build_object(
      'message_id', audit_log_private.custom_value(f.message_id::text),
      'conversation_id', audit_log_private.custom_value(m.conversation_id::text),
      'feedback', audit_log_private.custom_value(f.thumb::text)
    )
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

revoke all on function audit_log_private.custom_agents, audit_log_private.custom_conversations,
  audit_log_private.custom_messages, audit_log_private.custom_feedback from public, anon, authenticated, service_role;

-- Fires each trigger with no row. If a name is wrong, this migration fails now, and your application does not. You may
-- name any column that is not generated.
insert into public.agents (organization_id) select organization_id from public.agents where false;
insert into public.conversations (organization_id) select organization_id from public.conversations where false;
insert into public.messages (organization_id) select organization_id from public.messages where false;
insert into public.feedback (organization_id) select organization_id from public.feedback where false;
