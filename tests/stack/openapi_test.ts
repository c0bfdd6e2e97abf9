import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { createHash } from "node:crypto";
import { cp } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import document from "../../docs/openapi.json" with { type: "json" };
import { createDatabase } from "../../supabase/functions/public-audit-log/database.ts";
import { createHandler } from "../../supabase/functions/public-audit-log/handler.ts";
import { assertDocumented, DOCUMENTED_STATUSES, exampleOf, headerExamplesOf } from "../contract.ts";
import {
  AUDIT_LOG_URL,
  connect,
  type Entry,
  newOrganization,
  type Organization,
  type Page,
  runUpkeep,
  send,
  signUp,
  TWO_DAYS,
  UNKNOWN_TOKEN,
  writeEntries,
} from "../helpers.ts";

const sql = connect();
const admin = await signUp();
afterAll(() => sql.end());

/** The page of the example; its entries are what a test has to write. */
const EXAMPLE_PAGE = exampleOf(200) as Page;

const SEALS = document.paths["/public-audit-log/seals"].get.responses[200];

async function pageOfExample(organization: Organization): Promise<Response> {
  const { items, start, end } = EXAMPLE_PAGE;
  await writeEntries(organization.id, items as Entry[]);
  return await send(`?start=${start}&end=${end}`, withKey(organization));
}

function withKey({ token }: Organization): RequestInit {
  return { headers: { Authorization: `Bearer ${token}` } };
}

/** What the request of the example of each status is. */
const REQUESTS: Record<number, (organization: Organization) => Promise<Response>> = {
  200: pageOfExample,
  400: (organization) =>
    send("?start=2026-02-30&limit=5000&acton=message_created", withKey(organization)),
  401: () => send(`?${TWO_DAYS}`, { headers: { Authorization: `Bearer ${UNKNOWN_TOKEN}` } }),
  404: (organization) => send(`/entries?${TWO_DAYS}`, withKey(organization)),
  405: (organization) => send(`?${TWO_DAYS}`, { method: "POST", ...withKey(organization) }),
  429: async (organization) => {
    await sql`
      update private.rate_limits set accepted_at = array_fill(clock_timestamp(), array[60])
      where api_key_id = ${organization.apiKeyId}`;
    return await send(`?${TWO_DAYS}`, withKey(organization));
  },
  500: async () => {
    const nobody = createDatabase({ url: "http://127.0.0.1:1", secretKey: "none" });
    const handle = createHandler({ database: nobody, publicUrl: AUDIT_LOG_URL, log: () => {} });
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
    await runUpkeep(sql);
    const example = SEALS.content["application/json"].example;
    const { start, end, items: [seal] } = example;
    const response = await send(`/seals?start=${start}&end=${end}`, withKey(organization));
    const body = await response.json();
    assertEquals(
      { ...body, organization_id: "", items: [{ ...body.items[0], sealed_at: "", seal: "" }] },
      { ...example, organization_id: "", items: [{ ...seal, sealed_at: "", seal: "" }] },
    );
    const { previous, sequence, day, entries, added, removed, sha256, sealed_at } = seal ?? {};
    const line = [previous, sequence, day, entries, added, removed, sha256, sealed_at].join(" ");
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
        if (name === "X-Request-Id") continue;
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

describe("openapi.json, asked about an answer,", () => {
  const page = JSON.stringify(EXAMPLE_PAGE);
  const [message] = EXAMPLE_PAGE.items;

  async function answer(): Promise<Response> {
    return await pageOfExample(await newOrganization(admin));
  }

  it("lets pass what it says, and fields more", async () => {
    const { headers } = await answer();
    await assertDocumented(new Response(page, { headers }));
    const withMore = { ...EXAMPLE_PAGE, more: 1, items: [{ ...message, more: 1 }] };
    await assertDocumented(new Response(JSON.stringify(withMore), { headers }));
  });

  it("refuses a field missing or of another type", async () => {
    const { headers } = await answer();
    const bodies = [
      ...Object.keys(EXAMPLE_PAGE).map((name) => ({ ...EXAMPLE_PAGE, [name]: undefined })),
      ...Object.keys(message ?? {}).map((name) => ({
        ...EXAMPLE_PAGE,
        items: [{ ...message, [name]: undefined }],
      })),
      { ...EXAMPLE_PAGE, total: "2" },
      { ...EXAMPLE_PAGE, start: "2026-02-30" },
      { ...EXAMPLE_PAGE, items: [{ ...message, created_at: "2026-11-06T09:09:18Z" }] },
      { ...EXAMPLE_PAGE, items: [{ ...message, data: { message_id: "m-1" } }] },
    ];
    for (const body of bodies) {
      await assertRejects(
        () => assertDocumented(new Response(JSON.stringify(body), { headers })),
        Error,
        "not as in docs/openapi.json",
      );
    }
  });

  it("refuses a header missing or of another form", async () => {
    const { headers } = await answer();
    for (const name of ["RateLimit", "RateLimit-Policy", "Link", "X-Request-Id", "Cache-Control"]) {
      const fewer = new Headers(headers);
      fewer.delete(name);
      await assertRejects(
        () => assertDocumented(new Response(page, { headers: fewer })),
        Error,
        name,
      );
    }
    const other = new Headers(headers);
    other.set("RateLimit", "59");
    await assertRejects(() => assertDocumented(new Response(page, { headers: other })), Error);
  });

  it("refuses another media type", async () => {
    const headers = new Headers((await answer()).headers);
    headers.set("Content-Type", "text/plain");
    await assertRejects(
      () => assertDocumented(new Response(page, { headers })),
      Error,
      "Content-Type text/plain",
    );
  });

  it("refuses a status that it does not have", async () => {
    for (const status of [201, 403, 503]) {
      assert(!DOCUMENTED_STATUSES.includes(status));
      await assertRejects(
        () => assertDocumented(new Response(page, { status })),
        Error,
        `status ${status}`,
      );
    }
  });
});

describe("deno task openapi --check", () => {
  it("fails, and names the file, when a document is out of step with the function", async () => {
    const copy = await copyOfRepository();
    const check = async () => {
      const { code, stderr } = await new Deno.Command(Deno.execPath(), {
        args: ["run", "--allow-all", "docs/openapi.ts", "--check"],
        cwd: copy,
      }).output();
      return { code, text: new TextDecoder().decode(stderr) };
    };
    try {
      assertEquals((await check()).code, 0);
      const file = `${copy}/supabase/functions/public-audit-log/query.ts`;
      const query = await Deno.readTextFile(file);
      await Deno.writeTextFile(file, query.replace("wholeNumber(1, 1000)", "wholeNumber(1, 999)"));
      const { code, text } = await check();
      assertEquals(code, 1);
      assertStringIncludes(text, "docs/openapi.json is out of step with the function");
    } finally {
      await Deno.remove(copy, { recursive: true });
    }
  });
});

/** A folder with what the task reads. */
async function copyOfRepository(): Promise<string> {
  const root = fileURLToPath(new URL("../..", import.meta.url));
  const copy = await Deno.makeTempDir();
  for (const name of ["deno.json", "deno.lock", "docs", "local", "supabase", "console", "tasks"]) {
    await cp(`${root}${name}`, `${copy}/${name}`, {
      recursive: true,
      // A running start's database.
      filter: (path) => path !== `${root}local/data`,
    });
  }
  await Deno.symlink(`${root}node_modules`, `${copy}/node_modules`);
  return copy;
}
