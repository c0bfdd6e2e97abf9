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
