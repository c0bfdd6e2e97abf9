-- The platform's server says who has left. The rest is for the owner, or for the role of a monitoring system.

grant execute on function audit_log.person_left to service_role;
