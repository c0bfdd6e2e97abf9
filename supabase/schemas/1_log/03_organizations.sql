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
