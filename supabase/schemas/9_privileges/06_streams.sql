-- The Edge Function delivers streams. People manage them, and so does the platform's server.

grant execute on function audit_log.take_batch, audit_log.settle_batch to service_role;

grant execute on function audit_log.list_streams, audit_log_private.list_streams,
  audit_log.read_stream, audit_log_private.read_stream,
  audit_log.create_stream, audit_log_private.create_stream,
  audit_log.change_stream, audit_log_private.change_stream,
  audit_log.retry_stream, audit_log_private.retry_stream,
  audit_log.pause_stream, audit_log_private.pause_stream,
  audit_log.resume_stream, audit_log_private.resume_stream,
  audit_log.delete_stream, audit_log_private.delete_stream
to authenticated, service_role;
