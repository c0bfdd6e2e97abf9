-- The Edge Function answers requests. People manage keys, and so does the platform's server.

grant execute on function audit_log.public_audit_log to service_role;

grant execute on function audit_log.list_api_keys, audit_log_private.list_api_keys,
  audit_log.create_api_key, audit_log_private.create_api_key,
  audit_log.rotate_api_key, audit_log_private.rotate_api_key,
  audit_log.revoke_api_key, audit_log_private.revoke_api_key
to authenticated, service_role;

grant execute on function audit_log.api_key_usage, audit_log_private.api_key_usage to authenticated;
