# Reads the audit log with dlt's rest_api source, by time. Each run reads again the last day before the newest entry.
# Tried with dlt 1.31.0 and DuckDB. Environment: AUDIT_LOG_URL, AUDIT_LOG_API_KEY.
import json, os
import dlt
from dlt.sources.rest_api import rest_api_source

audit_log = rest_api_source({
    "client": {
        "base_url": os.environ["AUDIT_LOG_URL"],
        "auth": {"type": "bearer", "token": os.environ["AUDIT_LOG_API_KEY"]},
        "paginator": {"type": "cursor", "cursor_path": "cursor", "cursor_param": "after", "has_more_path": "has_more"},
    },
    "resources": [{
        "name": "entries",
        "primary_key": ["id", "created_at"],
        "write_disposition": "merge",
        "endpoint": {
            "path": "",
            "params": {"limit": 1000, "after": "beginning"},
            "data_selector": "items",
            "incremental": {
                "cursor_path": "created_at", "start_param": "since",
                "initial_value": "2026-01-01T00:00:00.000Z", "lag": 86400,
            },
        },
        # As text, because dlt refuses integers of more than 64 bits.
        "processing_steps": [{"map": lambda entry: entry | {"data": json.dumps(entry["data"])}}],
    }],
})

print(dlt.pipeline("rest_api_audit_log", destination="duckdb", dataset_name="audit_log").run(audit_log))
