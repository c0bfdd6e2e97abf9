# Follows the audit log with dlt, each entry once. Tried with dlt 1.31.0 and DuckDB.
# Environment: AUDIT_LOG_URL, AUDIT_LOG_API_KEY.
import json, os
import dlt
from dlt.sources.helpers.rest_client import RESTClient
from dlt.sources.helpers.rest_client.auth import BearerTokenAuth
from dlt.sources.helpers.rest_client.paginators import JSONResponseCursorPaginator


# Merging by the key, because dlt loads again what it was killed over.
@dlt.resource(primary_key=["id", "created_at"], write_disposition="merge")
def entries():
    client = RESTClient(os.environ["AUDIT_LOG_URL"], auth=BearerTokenAuth(os.environ["AUDIT_LOG_API_KEY"]))
    # dlt keeps this state together with the entries.
    state = dlt.current.resource_state()
    for page in client.paginate(
        params={"limit": 1000, "after": state.get("cursor", "beginning")},
        paginator=JSONResponseCursorPaginator("cursor", "after", has_more_path="has_more"),
        data_selector="items",
    ):
        for entry in page:
            # As text, because dlt refuses integers of more than 64 bits.
            entry["data"] = json.dumps(entry["data"])
        yield page
        state["cursor"] = page.response.json()["cursor"]


print(dlt.pipeline("follow_audit_log", destination="duckdb", dataset_name="audit_log").run(entries))
