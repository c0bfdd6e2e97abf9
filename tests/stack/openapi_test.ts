import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { createHash } from "node:crypto";
import { cp } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import document from "../../docs/openapi.json" with { type: "json" };
import { createDataApiClient } from "../../supabase/functions/public-audit-log/decision.ts";
import { createHandler } from "../../supabase/functions/public-audit-log/handler.ts";
import { assertDocumented, DOCUMENTED_STATUSES, exampleOf, headerExamplesOf } from "../contract.ts";
import {
  AUDIT_LOG_URL,
  type Entry,
  exhaust,
  get,
  newOrganization,
  type Organization,
  type Page,
  runUpkeep,
  send,
  signUp,
  sql,
  TWO_DAYS,
  UNKNOWN_TOKEN,
  withKey,
  writeEntries,
} from "../helpers.ts";
import { runDeno } from "../run_program.ts";

const admin = await signUp();

/** The page of the example; its entries are what a test has to write. */
const EXAMPLE_PAGE = exampleOf(200) as Page;

const SEALS = document.paths["/public-audit-log/seals"].get.responses[200];

async function pageOfExample(organization: Organization): Promise<Response> {
  const { items, start, end } = EXAMPLE_PAGE;
  await writeEntries(organization.id, items as Entry[]);
  return await get(organization.token, `start=${start}&end=${end}`);
}

/** What the request of the example of each status is. */
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
    const request = new Request(`http://localhost/public-audit-log?${TWO_DAYS}`, {
      headers: { Authorization: `Bearer ${UNKNOWN_TOKEN}` },
    });
    return await handle(request);
  },
};

describe("openapi.json: the example of seals", () => {
  it("is what the service answers about the entries of the other example", async () => {
    const organization = await newOrganization(admin);
    await pageOfExample(organization);
    await runUpkeep();
    const example = SEALS.content["application/json"].example;
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

/** Without what no two answers share. */
function comparable(body: object): object {
  return { ...body, organization_id: null, request_id: null };
}

describe("openapi.json: the example of", () => {
  it("a status is there for each that the document has", () => {
    assertEquals(Object.keys(REQUESTS).map(Number), DOCUMENTED_STATUSES);
  });

  for (const [status, request] of Object.entries(REQUESTS)) {
    it(`${status} is what the service answers`, async () => {
      const organization = await newOrganization(admin);
      const response = await request(organization);
      assertEquals(response.status, Number(status));
      await assertDocumented(response);
      assertEquals(comparable(await response.json()), comparable(exampleOf(response.status)));
      for (const [name, value] of Object.entries(headerExamplesOf(response.status))) {
        // The example is of no answer to after.
        if (name === "X-Request-Id" || name === "X-Has-More") continue;
        // The example is of a limit that is not used up.
        if (response.status === 429 && name === "RateLimit") continue;
        const expected = String(value)
          .replaceAll(
            "https://project-ref.supabase.co/functions/v1/public-audit-log",
            AUDIT_LOG_URL,
          );
        assertEquals(response.headers.get(name), expected, name);
      }
    });
  }
});

const { headers } = await pageOfExample(await newOrganization(admin));

describe("openapi.json, asked about an answer,", () => {
  const [message] = EXAMPLE_PAGE.items;

  function answer(body: object = EXAMPLE_PAGE, more: Record<string, string> = {}): Response {
    return new Response(JSON.stringify(body), {
      headers: { ...Object.fromEntries(headers), ...more },
    });
  }

  function answerWithout(header: string): Response {
    const fewer = answer();
    fewer.headers.delete(header);
    return fewer;
  }

  it("lets pass what it says, and fields more", async () => {
    await assertDocumented(answer());
    const items = [{ ...message, more: 1 }];
    await assertDocumented(answer({ ...EXAMPLE_PAGE, more: 1, items }));
  });

  it("refuses fields and headers missing or of another form, and other media types and statuses", async () => {
    const items = [
      ...Object.keys(message ?? {}).map((name) => ({ ...message, [name]: undefined })),
      { ...message, created_at: "2026-11-06T09:09:18Z" },
      { ...message, data: { message_id: "m-1" } },
    ];
    const wrongs = [
      ...Object.keys(EXAMPLE_PAGE).map((name) => answer({ ...EXAMPLE_PAGE, [name]: undefined })),
      ...items.map((item) => answer({ ...EXAMPLE_PAGE, items: [item] })),
      answer({ ...EXAMPLE_PAGE, total: "2" }),
      answer({ ...EXAMPLE_PAGE, start: "2026-02-30" }),
      ...["RateLimit", "RateLimit-Policy", "Link", "X-Request-Id", "Cache-Control"]
        .map(answerWithout),
      answer(EXAMPLE_PAGE, { ratelimit: "59" }),
      answer(EXAMPLE_PAGE, { "content-type": "text/plain" }),
      ...[201, 403, 503].map((status) => new Response("{}", { status })),
    ];
    for (const wrong of wrongs) {
      await assertRejects(() => assertDocumented(wrong), Error, "not as in docs/openapi.json");
    }
  });
});

describe("deno task openapi --check", () => {
  it("fails, and names the file, when a document is out of step with the function", async () => {
    const copy = await copyOfRepository();
    const check = () =>
      runDeno({ args: ["run", "--allow-all", "docs/openapi.ts", "--check"], cwd: copy });
    try {
      assertEquals((await check()).code, 0);
      const file = `${copy}/supabase/functions/public-audit-log/query_schema.ts`;
      const query = await Deno.readTextFile(file);
      await Deno.writeTextFile(file, query.replace("wholeNumber(1, 1000)", "wholeNumber(1, 999)"));
      const { code, stderr } = await check();
      assertEquals(code, 1);
      assertStringIncludes(stderr, "docs/openapi.json is out of step with the function");
    } finally {
      await Deno.remove(copy, { recursive: true });
    }
  });
});

/** A folder with what the task reads. */
async function copyOfRepository(): Promise<string> {
  const root = fileURLToPath(new URL("../..", import.meta.url));
  const copy = await Deno.makeTempDir();
  for (const name of ["deno.json", "deno.lock", "docs", "local", "tasks", "supabase", "console"]) {
    // Without a running start's database.
    const filter = (path: string) => path !== `${root}local/data`;
    await cp(`${root}${name}`, `${copy}/${name}`, { recursive: true, filter });
  }
  await Deno.symlink(`${root}node_modules`, `${copy}/node_modules`);
  return copy;
}
