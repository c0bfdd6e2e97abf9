-- The tables and functions of three_calls.ts.
create table if not exists audit_log.bench_api_keys (
  id uuid primary key,
  organization_id uuid not null,
  key_hash text not null unique,
  revoked_at timestamptz
);
create table if not exists audit_log.bench_request_counts (
  api_key_id uuid not null,
  minute timestamptz not null,
  requests integer not null,
  primary key (api_key_id, minute)
);
create or replace function audit_log.bench_count_request(api_key_id uuid) returns integer
language sql volatile set search_path = ''
as $$
  insert into audit_log.bench_request_counts as c (api_key_id, minute, requests)
  values (bench_count_request.api_key_id, date_trunc('minute', now()), 1)
  on conflict on constraint bench_request_counts_pkey do update set requests = c.requests + 1
  returning requests
$$;
grant select on audit_log.bench_api_keys to service_role;
grant select, insert, update on audit_log.bench_request_counts to service_role;
grant execute on function audit_log.bench_count_request to service_role;
