import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { createHash } from "node:crypto";
import document from "../../docs/openapi.json" with { type: "json" };
import { createDataApiClient } from "../../supabase/functions/public-audit-log/data_api_client.ts";
import { createHandler } from "../../supabase/functions/public-audit-log/handler.ts";
import { assertDocumented, DOCUMENTED_STATUSES, exampleOf, headerExamplesOf } from "../contract.ts";
import {
  AUDIT_LOG_URL,
  type Entry,
  exhaust,
  get,
  newLog,
  type Organization,
  type Page,
  runUpkeep,
  send,
  sql,
  TWO_DAYS,
  UNKNOWN_TOKEN,
  withKey,
  writeEntries,
} from "../helpers.ts";

async function pageOfExample({ id, token }: Organization): Promise<Response> {
  const { items, start, end } = exampleOf(200) as Page;
  await writeEntries(id, items as Entry[]);
  return await get(token, `start=${start}&end=${end}`);
}

/** The request of the example of each status. */
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

/** Without what no two answers share. */
function comparable(body: object): object {
  return { ...body, organization_id: null, request_id: null };
}

describe("the example in openapi.json of", () => {
  it("a status is there for each that the document has", () => {
    assertEquals(Object.keys(REQUESTS).map(Number), DOCUMENTED_STATUSES);
  });

  for (const [status, request] of Object.entries(REQUESTS)) {
    it(`${status} is what the service answers`, async () => {
      const response = await request(await newLog());
      assertEquals(response.status, Number(status));
      await assertDocumented(response);
      assertEquals(comparable(await response.json()), comparable(exampleOf(response.status)));
      for (const [name, value] of Object.entries(headerExamplesOf(response.status))) {
        // The example is of no answer to after.
        if (name === "X-Request-Id" || name === "X-Has-More") continue;
        // The example is of a limit that is not used up.
        if (response.status === 429 && name === "RateLimit") continue;
        const hosted = "https://project-ref.supabase.co/functions/v1/public-audit-log";
        const expected = String(value).replaceAll(hosted, AUDIT_LOG_URL);
        assertEquals(response.headers.get(name), expected, name);
      }
    });
  }

  it("seals is what the service answers about the entries of the other example", async () => {
    const organization = await newLog();
    await pageOfExample(organization);
    await runUpkeep(sql);
    const { example } =
      document.paths["/public-audit-log/seals"].get.responses[200].content["application/json"];
    const { start, end, items: [seal] } = example;
    const response = await send(`/seals?start=${start}&end=${end}`, withKey(organization.token));
    const body = await response.json();
    assertEquals(
      { ...body, organization_id: "", items: [{ ...body.items[0], sealed_at: "", seal: "" }] },
      { ...example, organization_id: "", items: [{ ...seal, sealed_at: "", seal: "" }] },
    );
    const { format, previous, sequence, day, entries, added, removed } = seal ?? {};
    const line = [format, previous, sequence, day, entries, added, removed]
      .concat(seal?.sha256, seal?.sealed_at).join(" ");
    assertEquals(seal?.seal, createHash("sha256").update(line).digest("hex"));
  });
});
