import { assert, assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  age,
  AUDIT_LOG_URL,
  createApiKey,
  type Entry,
  exhaust,
  get,
  getPage,
  getProblem,
  MESSAGE_DATA,
  newOrganization,
  type Organization,
  type Page,
  revokeApiKey,
  send,
  signUp,
  sql,
  statusOnly,
  TWO_DAYS,
  UNKNOWN_TOKEN,
  withKey,
  writeEntries,
} from "../helpers.ts";

const admin = await signUp();

/** An organization with entries and a key. */
async function organizationWith(...entries: Entry[]): Promise<Organization> {
  const organization = await newOrganization(admin);
  await writeEntries(organization.id, entries);
  return organization;
}

function createdAt(page: Page): string[] {
  return page.items.map((item) => item.created_at);
}

describe("GET: the page", () => {
  it("has the fields of the contract, in full", async () => {
    const { id, token } = await organizationWith({
      created_at: "2026-03-01T08:09:10.123Z",
      user_email: "ada@example.com",
      agent_name: "Support Assistant",
    });
    const response = await get(token, `${TWO_DAYS}&limit=10&offset=0`);
    assertEquals(response.status, 200);
    assertEquals(response.headers.get("Content-Type"), "application/json");
    const page: Page = await response.json();
    const [item] = page.items;
    assertMatch(
      item?.id ?? "",
      /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
    );
    const expected = {
      organization_id: id,
      start: "2026-03-01",
      end: "2026-03-02",
      total: 1,
      limit: 10,
      offset: 0,
      items: [{
        id: item?.id ?? "",
        created_at: "2026-03-01T08:09:10.123Z",
        action: "message_created" as const,
        user_email: "ada@example.com",
        agent_name: "Support Assistant",
        data: MESSAGE_DATA,
      }],
    };
    // As texts: the order of the fields is part of it.
    assertEquals(JSON.stringify(page), JSON.stringify(expected));
  });

  it("is empty, not an error, for an organization without entries", async () => {
    const { token } = await organizationWith();
    const page = await getPage(token);
    assertEquals([page.total, page.limit, page.offset, page.items], [0, 100, 0, []]);
  });

  it("passes text and data on as they are: quotes, other scripts, nesting, long numbers", async () => {
    const { id, token } = await organizationWith();
    const name = 'Ünï "quoted" \\ 会話 🎉 \u2028 <b>';
    await sql`
      insert into public.audit_entries (organization_id, created_at, action, user_email, agent_name, data)
      values (${id}, '2026-03-01', 'agent_added', ${`${name}@example.com`}, ${name},
        '{"n": 12345678901234567890.5, "deep": {"list": [null, true, "\\u00e9"]}}')`;
    const body = await (await get(token)).text();
    const [item] = JSON.parse(body).items;
    assertEquals(item.agent_name, name);
    assertEquals(item.user_email, `${name}@example.com`);
    assertEquals(item.data.deep, { list: [null, true, "é"] });
    assert(body.includes("12345678901234567890.5"), body);
  });

  it("has every common header", async () => {
    const { token } = await organizationWith();
    const { headers } = await get(token);
    assertEquals(headers.get("Cache-Control"), "no-store");
    assertEquals(headers.get("Vary"), "Authorization, Accept");
    assertEquals(headers.get("X-Content-Type-Options"), "nosniff");
    assertMatch(headers.get("X-Request-Id") ?? "", /^[0-9a-f-]{36}$/);
    assertEquals(headers.get("RateLimit-Policy"), '"default";q=60;w=60');
    assertEquals(headers.get("RateLimit"), '"default";r=59;t=60');
  });
});

describe("GET: the days", () => {
  it("includes the first and the last millisecond of the range and nothing beside it", async () => {
    const { token } = await organizationWith(
      { created_at: "2026-02-28T23:59:59.999Z" },
      { created_at: "2026-03-01T00:00:00.000Z" },
      { created_at: "2026-03-02T23:59:59.999Z" },
      { created_at: "2026-03-03T00:00:00.000Z" },
    );
    const page = await getPage(token, "start=2026-03-01&end=2026-03-02");
    assertEquals(createdAt(page), ["2026-03-01T00:00:00.000Z", "2026-03-02T23:59:59.999Z"]);
    assertEquals(page.total, 2);
  });

  it("are UTC days, whatever zone an entry was written in", async () => {
    const { token } = await organizationWith(
      { created_at: "2026-03-01T23:30:00-02:00" },
      { created_at: "2026-03-02T00:30:00+01:00" },
    );
    assertEquals(createdAt(await getPage(token, "start=2026-03-01&end=2026-03-01")), [
      "2026-03-01T23:30:00.000Z",
    ]);
    assertEquals(createdAt(await getPage(token, "start=2026-03-02&end=2026-03-02")), [
      "2026-03-02T01:30:00.000Z",
    ]);
  });

  it("reach from the first to the last day there is", async () => {
    const { token } = await organizationWith(
      { created_at: "0001-01-01T00:00:00Z" },
      { created_at: "9999-12-31T23:59:59.999Z" },
    );
    assertEquals(createdAt(await getPage(token, "start=0001-01-01&end=9999-12-31")), [
      "0001-01-01T00:00:00.000Z",
      "9999-12-31T23:59:59.999Z",
    ]);
  });
});

describe("GET: paging", () => {
  /** 25 entries: some at the same millisecond, so that only the id orders them. */
  const entries = Array.from({ length: 25 }, (_, i) => ({
    created_at: new Date(Date.UTC(2026, 2, 1, 0, 0, 0, 0) + Math.floor(i / 3) * 3_600_000)
      .toISOString(),
    action: i % 5 === 0 ? "agent_added" as const : "feedback_given" as const,
    data: { n: i },
  }));

  it("beyond the end is an empty page with the true total", async () => {
    const { token } = await organizationWith(...entries);
    for (const offset of [25, 26, 1_000_000, Number.MAX_SAFE_INTEGER]) {
      const page = await getPage(token, `${TWO_DAYS}&offset=${offset}`);
      assertEquals([page.total, page.offset, page.items], [25, offset, []]);
    }
    assertEquals((await getPage(token, `${TWO_DAYS}&offset=24`)).items.length, 1);
  });

  it("an offset names the same entry while newer ones are written", async () => {
    const { id, token } = await organizationWith(...entries);
    const before = await getPage(token, `${TWO_DAYS}&limit=5&offset=10`);
    await writeEntries(id, [{ created_at: "2026-03-02T23:00:00Z" }]);
    const after = await getPage(token, `${TWO_DAYS}&limit=5&offset=10`);
    assertEquals(after.items, before.items);
    assertEquals(after.total, before.total + 1);
  });

  it("gives 1000 entries at once, and 100 when not asked", async () => {
    const { token } = await organizationWith(
      ...Array.from({ length: 1001 }, (_, i) => ({
        created_at: new Date(Date.UTC(2026, 2, 1) + i).toISOString(),
      })),
    );
    assertEquals((await getPage(token, `${TWO_DAYS}&limit=1000`)).items.length, 1000);
    assertEquals((await getPage(token)).items.length, 100);
    assertEquals((await getPage(token)).total, 1001);
  });

  it("links lead through all pages and back, relative to the address the caller used", async () => {
    const { token } = await organizationWith(...entries);
    let url: URL | undefined = new URL(
      `${AUDIT_LOG_URL}?${TWO_DAYS}&limit=10&action=feedback_given`,
    );
    const seen: string[] = [];
    while (url) {
      const response: Response = await fetch(url, withKey(token));
      const page: Page = await response.json();
      seen.push(...page.items.map((item) => item.id));
      const next: string | undefined = response.headers.get("Link")?.match(/<([^>]*)>; rel="next"/)
        ?.[1];
      url = next === undefined ? undefined : new URL(next, url);
    }
    const all = await getPage(token, `${TWO_DAYS}&action=feedback_given`);
    assertEquals(seen, all.items.map((item) => item.id));
    assertEquals(seen.length, 20);
  });
});

describe("400", () => {
  // What is right and wrong: parse_query_test.ts. Here, how it is said.
  for (
    const [query, parameters] of [
      ["", ["end", "start"]],
      ["start=0000-01-01&end=2026-03-01", ["start"]],
      [`${TWO_DAYS}&limit=1001`, ["limit"]],
      [`${TWO_DAYS}&offset=9007199254740992`, ["offset"]],
      [`${TWO_DAYS}&acton=agent_added`, ["acton"]],
      ["start=%00&end=%zz&limit=%F0%9F&offset=٣", ["end", "limit", "offset", "start"]],
    ] as const
  ) {
    it(`?${query} names ${parameters.join(", ")}`, async () => {
      const { token } = await organizationWith();
      const response = await get(token, query);
      const { title: _, detail: __, request_id, errors, ...problem } = await response.json();
      assertEquals(response.status, 400);
      assertEquals(response.headers.get("Content-Type"), "application/problem+json");
      assertEquals(response.headers.get("RateLimit"), '"default";r=59;t=60');
      assertEquals(request_id, response.headers.get("X-Request-Id"));
      assertEquals(problem, { type: "about:blank", status: 400, code: "invalid_parameters" });
      const named = errors.map(({ parameter }: { parameter: string }) => parameter);
      assertEquals(named.sort(), parameters);
    });
  }
});

describe("401", () => {
  async function unauthorized(headers: HeadersInit) {
    const response = await send(`?${TWO_DAYS}`, { headers });
    const { request_id, ...body } = await response.json();
    assertEquals(response.status, 401);
    assertEquals(request_id, response.headers.get("X-Request-Id"));
    assertEquals(response.headers.get("RateLimit"), null);
    return { body, challenge: response.headers.get("WWW-Authenticate") };
  }

  it("has one body for missing, malformed, unknown, expired and revoked tokens", async () => {
    const { id, apiKeyId, token } = await organizationWith();
    await revokeApiKey(admin, { organization_id: id, id: apiKeyId });
    const expired = await createApiKey(admin, id);
    await sql`update private.api_keys set expires_at = now() where id = ${expired.id}`;
    const bodies = [];
    for (
      const headers of [
        {},
        { Authorization: "Basic YTpi" },
        { Authorization: "Bearer nonsense" },
        { Authorization: `Bearer ${token.slice(0, -1)}` },
        { Authorization: `Bearer ${UNKNOWN_TOKEN}` },
        { Authorization: `Bearer ${token}` },
        { Authorization: `Bearer ${expired.token}` },
      ]
    ) bodies.push((await unauthorized(headers)).body);
    for (const body of bodies) assertEquals(body, bodies[0]);
    assertEquals([bodies[0]?.status, bodies[0]?.code], [401, "unauthorized"]);
  });

  it("challenges with an error only when a token was sent (RFC 6750)", async () => {
    const plain = 'Bearer realm="public-audit-log"';
    assertEquals((await unauthorized({})).challenge, plain);
    assertEquals((await unauthorized({ Authorization: "Basic YTpi" })).challenge, plain);
    for (const token of ["nonsense", UNKNOWN_TOKEN]) {
      assertEquals(
        (await unauthorized({ Authorization: `Bearer ${token}` })).challenge,
        `${plain}, error="invalid_token"`,
      );
    }
  });

  it("takes the token from nowhere but the Authorization header", async () => {
    const { token } = await organizationWith();
    await unauthorized({ apikey: token });
    await unauthorized({ Cookie: `token=${token}` });
    assertEquals(await statusOnly(send(`?${TWO_DAYS}&access_token=${token}`)), 401);
  });

  it("refuses the platform's own keys and people's sessions", async () => {
    const { data } = await admin.client.auth.getSession();
    for (const token of [Deno.env.get("SUPABASE_SECRET_KEY"), data.session?.access_token]) {
      await unauthorized({ Authorization: `Bearer ${token}` });
    }
  });
});

describe("404 and 405", () => {
  it("405 for every method but GET, with Allow, before the key is looked at", async () => {
    const { token } = await organizationWith();
    for (const method of ["HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"]) {
      for (const headers of [{}, { Authorization: `Bearer ${token}` }]) {
        const response = await send(`?${TWO_DAYS}`, { method, headers });
        const text = await response.text();
        assertEquals(response.status, 405, method);
        assertEquals(response.headers.get("Allow"), "GET");
        if (method !== "HEAD") assertEquals(JSON.parse(text).code, "method_not_allowed");
      }
    }
    assertEquals((await get(token)).headers.get("RateLimit"), '"default";r=59;t=60');
  });

  it("200 at the same address with a slash at its end, as some clients send it", async () => {
    const { token } = await organizationWith();
    assertEquals(await statusOnly(send(`/?${TWO_DAYS}`, withKey(token))), 200);
  });

  it("404 for every path below the function, before anything else", async () => {
    const { token } = await organizationWith();
    for (const path of ["/x", "/public-audit-log", "//", "/%00"]) {
      for (const method of ["GET", "POST"]) {
        const response = await send(`${path}?${TWO_DAYS}`, { method, ...withKey(token) });
        assertEquals(response.status, 404, `${method} ${path}`);
        assertEquals((await response.json()).code, "not_found");
      }
    }
  });
});

describe("the order of answers", () => {
  it("is 405, 401, 429, 400", async () => {
    const { apiKeyId, token } = await organizationWith();
    await exhaust(sql, apiKeyId);
    const bad = "start=x";
    assertEquals(await statusOnly(send(`?${bad}`, { method: "POST" })), 405);
    await getProblem(401, UNKNOWN_TOKEN, bad);
    await getProblem(429, token, bad);
    await age(sql, apiKeyId, "60 seconds");
    await getProblem(400, token, bad);
  });

  it("gives every answer a request id of its own", async () => {
    const { token } = await organizationWith();
    const answers = await Promise.all(Array.from({ length: 2 }, () => get(token)));
    const ids = answers.map(({ headers }) => headers.get("X-Request-Id"));
    assertNotEquals(ids[0], ids[1]);
    await Promise.all(answers.map(({ body }) => body?.cancel()));
  });
});
