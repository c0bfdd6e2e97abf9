-- The organizations, and who belongs to them.

create table audit_log.organizations (
  id uuid primary key default gen_random_uuid(),
  name text not null check (name ~ E'\\S' and char_length(name) <= 200),
  external_id text unique check (external_id ~ E'\\S' and char_length(external_id) <= 200),
  logs_key_events boolean not null default false,
  keep_days integer check (keep_days between 1 and 36500),
  hold_reason text check (hold_reason ~ E'\\S' and char_length(hold_reason) <= 200),
  created_at timestamptz not null default now(),
  leaving_at timestamptz,
  former_external_id text,
  gone_at timestamptz
);
comment on table audit_log.organizations is
  'A customer of the platform. Each entry and each API key belongs to exactly one.';
comment on column audit_log.organizations.external_id is
  'What the platform calls the organization. The API and the console show it instead of the id.';
comment on column audit_log.organizations.logs_key_events is
  'Whether the log has an entry for what administrators do with API keys, and where they have it sent.';
comment on column audit_log.organizations.keep_days is
  'The upkeep deletes older entries; null keeps them for ever. Only the owner may set it.';
comment on column audit_log.organizations.hold_reason is
  'Why nothing of the organization may be deleted; null if it may. Only the owner may set it.';
comment on column audit_log.organizations.leaving_at is
  'When delete_organization began. From then on, nobody has access, and new entries are refused.';
comment on column audit_log.organizations.former_external_id is
  'The last external_id of an organization that is gone, until another gets it. Late entries find it by this.';
comment on column audit_log.organizations.gone_at is
  'When the platform deleted its own row of the organization, whose log has no external_id since then.';

create index organizations_former_external_id_idx on audit_log.organizations (former_external_id)
  where former_external_id is not null;

create function audit_log_private.refuse_to_others() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  owner constant oid := (select c.relowner from pg_class c where c.oid = tg_relid);
begin
  if not pg_has_role(current_user, owner, 'member') then
    raise exception
      'organization %: only the owner of the database may change id, external_id, logs_key_events and created_at: %',
      old.id, 'leave them out, or send their present values'
      using errcode = 'insufficient_privilege';
  end if;
  return new;
end $$;
comment on function audit_log_private.refuse_to_others is
  'Refuses a change to every role but the owner of the table and its members.';

-- By these values, the entries of an organization find its log, and the people of the platform who may read it: so
-- the secret key must not change them, not even from null. Column privileges cannot say this, because an
-- upsert of the Data API, which repeats them, needs the privilege to update them.
create trigger refuse_to_others
  before update on audit_log.organizations
  for each row when (
    (new.id, new.external_id, new.logs_key_events, new.created_at)
      is distinct from (old.id, old.external_id, old.logs_key_events, old.created_at)
  )
  execute function audit_log_private.refuse_to_others();

-- The platform may give an id again, to another customer. So an organization has an external_id only as long as the
-- platform has a row with it: an id that is used again gets a new organization, with a log of its own. The recipes call
-- these.
create function audit_log_private.add_organization(external_id text, name text) returns uuid
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  organization_id uuid;
begin
  insert into audit_log.organizations as o (external_id, name)
  values (add_organization.external_id, audit_log_private.name_or_unnamed(add_organization.name))
  -- Others may add it at the same time.
  on conflict on constraint organizations_external_id_key do update set name = o.name
  returning o.id into organization_id;
  update audit_log.organizations o set former_external_id = null
  where o.former_external_id = add_organization.external_id;
  return organization_id;
end $$;
comment on function audit_log_private.add_organization is
  'Adds the organization with an external_id, unless it is there, and returns its id.';

create function audit_log_private.organization_gone(external_id text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  update audit_log.organizations o set former_external_id = null
  where o.former_external_id = organization_gone.external_id;
  update audit_log.organizations o
  set external_id = null, former_external_id = o.external_id, gone_at = clock_timestamp()
  where o.external_id = organization_gone.external_id;
end $$;
comment on function audit_log_private.organization_gone is
  'Says that the platform has deleted its row of an organization: nobody else finds the log by this external_id.';

create function audit_log_private.organization_renamed(former text, present text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  perform from audit_log.organizations o where o.external_id = present;
  if found then
    -- A statement exchanged ids, or a deletion was not seen. Nobody can tell which log is whose, so both get another.
    perform audit_log_private.organization_gone(former), audit_log_private.organization_gone(present);
    return;
  end if;
  update audit_log.organizations o set former_external_id = null where o.former_external_id in (former, present);
  update audit_log.organizations o set external_id = present, former_external_id = former where o.external_id = former;
end $$;
comment on function audit_log_private.organization_renamed is
  'Says that the platform has changed its id of an organization, which keeps its log.';

create table audit_log.organization_members (
  organization_id uuid not null references audit_log.organizations on delete cascade,
  -- Text, and no foreign key to auth.users: other identity providers have other ids.
  user_id text not null check (user_id <> ''),
  role text not null default 'member' check (role in ('admin', 'auditor', 'member')),
  created_at timestamptz not null default now(),
  primary key (organization_id, user_id)
);
comment on table audit_log.organization_members is
  'Who belongs to an organization, unless the functions of `people` were replaced. Only an admin or auditor may read '
  'its log, and only an admin manage its API keys.';
comment on column audit_log.organization_members.user_id is 'The subject (sub) of the person''s JWT.';

create index organization_members_user_id_idx on audit_log.organization_members (user_id);
