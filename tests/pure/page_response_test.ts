import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { NDJSON, prefersNdjson } from "../../supabase/functions/public-audit-log/page_response.ts";

describe("application/x-ndjson", () => {
  it("is the answer to callers who prefer it to JSON, and to nobody else", () => {
    const preferred = [
      NDJSON,
      "Application/X-NDJSON",
      `${NDJSON}; charset=utf-8`,
      ...["*/*", "*/*;q=0.8", "application/*"].map((others) => `${NDJSON}, ${others}`),
      `application/json;q=0.9,${NDJSON}`,
      `application/json; q=0.1 , ${NDJSON} ; q=0.2`,
      `${NDJSON};q=0.001`,
      "application/json;q=0, */*",
    ];
    const others = [
      ...[null, "", "*/*", "text/html", "application/*"],
      `application/json, ${NDJSON}`,
      `application/json, ${NDJSON};q=0.9`,
      `*/*, ${NDJSON};q=0.5`,
      ...["0", "2", "high"].map((q) => `${NDJSON};q=${q}`),
    ];
    for (const accept of preferred) assertEquals(prefersNdjson(accept), true, accept);
    for (const accept of others) assertEquals(prefersNdjson(accept), false, `${accept}`);
  });
});
