-- What people call in the console, and its namesakes, which it calls.

grant execute on function audit_log.list_organizations, audit_log_private.list_organizations,
  audit_log.read_audit_log, audit_log_private.read_audit_log,
  audit_log.read_entry, audit_log_private.read_entry,
  audit_log.find_persons, audit_log_private.find_persons,
  audit_log.daily_entry_counts, audit_log_private.daily_entry_counts,
  audit_log.list_actions, audit_log_private.list_actions,
  audit_log.list_seals, audit_log_private.list_seals
to authenticated;
