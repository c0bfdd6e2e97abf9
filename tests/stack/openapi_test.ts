import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { createDataApiClient } from "../../supabase/functions/public-audit-log/ask_database.ts";
import { createHandler } from "../../supabase/functions/public-audit-log/handler.ts";
import { assertDocumented, DOCUMENTED_STATUSES, exampleOf, headerExamplesOf } from "../contract.ts";
import { AUDIT_LOG_URL, type Entry, exhaust, get, newLog, type Organization } from "../helpers.ts";
import { type Page, send, sql, TWO_DAYS, UNKNOWN_TOKEN, withKey } from "../helpers.ts";
import { writeEntries } from "../helpers.ts";

/** Writes the entries of the example of a page, and asks for it. */
async function pageOfExample({ id, token }: Organization): Promise<Response> {
  const { items, start, end } = exampleOf(200) as Page;
  await writeEntries(id, items as Entry[]);
  return await get(token, `start=${start}&end=${end}`);
}

/** Requests that are answered as the example of each status. */
const REQUESTS: Record<number, (organization: Organization) => Promise<Response>> = {
  200: pageOfExample,
  400: ({ token }) => get(token, "start=2026-02-30&limit=5000&acton=message_created"),
  401: () => get(UNKNOWN_TOKEN),
  404: ({ token }) => send(`/entries?${TWO_DAYS}`, withKey(token)),
  405: ({ token }) => send(`?${TWO_DAYS}`, { method: "POST", ...withKey(token) }),
  429: async ({ apiKeyId, token }) => {
    await exhaust(sql, apiKeyId);
    return await get(token);
  },
  500: async () => {
    const nobody = createDataApiClient({ url: "http://127.0.0.1:1", secretKey: "none" });
    const handle = createHandler({ dataApi: nobody, publicUrl: AUDIT_LOG_URL, log: () => {} });
    const address = `http://localhost/public-audit-log?${TWO_DAYS}`;
    return await handle(new Request(address, withKey(UNKNOWN_TOKEN)));
  },
};

/** Leaves out the ids that no two answers share. */
function comparable(body: object): object {
  return { ...body, organization_id: null, request_id: null };
}

/** Lists the fields of a body and of its entries, in their order. */
function fieldsOf(body: { items?: object[] }): string[][] {
  return [body, ...body.items ?? []].map(Object.keys);
}

describe("openapi.json", () => {
  it("has an example for each status", () => {
    assertEquals(Object.keys(REQUESTS).map(Number), DOCUMENTED_STATUSES);
  });

  for (const [status, request] of Object.entries(REQUESTS)) {
    it(`has the service's real answer as its example of ${status}, with the fields in the same order`, async () => {
      const response = await request(await newLog());
      assertEquals(response.status, Number(status));
      await assertDocumented(response);
      const [body, example] = [await response.json(), exampleOf(response.status)];
      assertEquals(comparable(body), comparable(example));
      assertEquals(fieldsOf(body), fieldsOf(example));
      for (const [name, value] of Object.entries(headerExamplesOf(response.status))) {
        // Only answers to after have X-Has-More. The example of RateLimit is not used up.
        if (name === "X-Request-Id" || name === "X-Has-More") continue;
        if (name === "RateLimit" && response.status === 429) continue;
        const hosted = "https://project-ref.supabase.co/functions/v1/public-audit-log";
        const expected = String(value).replaceAll(hosted, AUDIT_LOG_URL);
        assertEquals(response.headers.get(name), expected, name);
      }
    });
  }
});
