-- Removes the audit log: all entries, keys and seals, your custom_ functions, and the triggers that call them.
drop schema audit_log, audit_log_private cascade;
