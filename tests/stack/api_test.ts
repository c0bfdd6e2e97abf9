import { assert, assertEquals, assertMatch } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  age,
  client,
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
  runUpkeep,
  SECRET_KEY,
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
      /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
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
      insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name, data)
      values (${id}, '2026-03-01', 'agent_added', ${`${name}@example.com`}, ${name},
        '{"n": 12345678901234567890.5, "deep": {"list": [null, true, "\\u00e9"]}}')`;
    const body = await (await get(token)).text();
    const [item] = JSON.parse(body).items;
    assertEquals(item.agent_name, name);
    assertEquals(item.user_email, `${name}@example.com`);
    assertEquals(item.data.deep, { list: [null, true, "é"] });
    assert(body.includes("12345678901234567890.5"), body);
  });
});

/** Tells the service what the platform calls an organization, as the platform does. */
async function setExternalId(id: string, external_id: string | null): Promise<void> {
  await client("service_role").from("organizations")
    .update({ external_id }).eq("id", id).throwOnError();
}

/** An answer's body and all headers that say something about it. */
async function answerTo(token: string, query: string, Accept = "application/json") {
  const headers = { Authorization: `Bearer ${token}`, Accept };
  const response = await send(query, { headers });
  assertEquals(response.status, 200);
  const { date: _, ratelimit: __, "x-request-id": ___, ...rest } = Object.fromEntries(
    response.headers,
  );
  return { text: await response.text(), headers: rest };
}

describe("GET: organization_id", () => {
  it("is what the platform calls the organization, as soon and as long as it says so", async () => {
    const { id, token } = await organizationWith({});
    await runUpkeep(sql);
    const shown = async () => {
      const queries = [`?${TWO_DAYS}`, `?${TWO_DAYS}&after=beginning`, `/seals?${TWO_DAYS}`];
      const answers = await Promise.all(queries.map((query) => answerTo(token, query)));
      return answers.map(({ text }) => JSON.parse(text))
        .map(({ organization_id, items }) => [organization_id, items.length]);
    };
    const names = [`"Kunde\t${id}"\n{é}`, `org_${id}`, null];
    for (const name of [null, ...names]) {
      await setExternalId(id, name);
      assertEquals(await shown(), Array(3).fill([name ?? id, 1]));
    }
  });

  it("alone changes: entries, their NDJSON and the seals stay byte for byte", async () => {
    const { id, token } = await organizationWith({}, { action: "agent_added" });
    await runUpkeep(sql);
    const answers = async () => {
      const { text: page } = await answerTo(token, `?${TWO_DAYS}`);
      const { text: seals } = await answerTo(token, `/seals?${TWO_DAYS}`);
      const lines = await answerTo(token, `?${TWO_DAYS}`, "application/x-ndjson");
      return { page, seals, lines };
    };
    const before = await answers();
    const name = `org_${id.slice(0, 8)}`;
    await setExternalId(id, name);
    const after = await answers();
    assertEquals(after.lines, before.lines);
    assertEquals(
      [after.page, after.seals],
      [before.page, before.seals].map((text) => text.replace(id, name)),
    );
  });

  it("may change while a reader follows: cursors go on, and each entry comes once", async () => {
    const { id, token } = await organizationWith({ user_email: "0@example.com" });
    let query = `?${TWO_DAYS}&after=beginning`;
    for (const [n, name] of [null, `a_${id}`, `b_${id}`, null, `a_${id}`].entries()) {
      await setExternalId(id, name);
      const { text, headers } = await answerTo(token, query);
      const { organization_id, items }: Page = JSON.parse(text);
      const emails = items.map(({ user_email }) => user_email);
      assertEquals([organization_id, emails], [name ?? id, [`${n}@example.com`]]);
      query = headers["link"]?.match(/<[^>]*(\?[^>]*)>; rel="next"/)?.[1] ?? "none";
      await writeEntries(id, [{ user_email: `${n + 1}@example.com` }]);
    }
  });
});

describe("GET: the days", () => {
  it("are whole UTC days, the first and the last of the range and nothing beside it", async () => {
    const { token } = await organizationWith(
      { created_at: "0001-01-01T00:00:00Z" },
      { created_at: "2026-02-28T23:59:59.999Z" },
      { created_at: "2026-03-01T00:00:00.000Z" },
      // In the zone of its writer it is still the day before.
      { created_at: "2026-03-01T22:30:00-02:00" },
      { created_at: "2026-03-02T23:59:59.999Z" },
      { created_at: "2026-03-03T00:00:00.000Z" },
      { created_at: "9999-12-31T23:59:59.999Z" },
    );
    const times = async (query: string) =>
      (await getPage(token, query)).items.map((item) => item.created_at);
    assertEquals(await times("start=2026-03-01&end=2026-03-01"), ["2026-03-01T00:00:00.000Z"]);
    assertEquals(await times("start=2026-03-02&end=2026-03-02"), [
      "2026-03-02T00:30:00.000Z",
      "2026-03-02T23:59:59.999Z",
    ]);
    assertEquals((await times("start=0001-01-01&end=9999-12-31")).length, 7);
  });
});

describe("GET: paging", () => {
  it("beyond the end is an empty page with the true total", async () => {
    const { token } = await organizationWith({}, {});
    for (const offset of [2, 3, 1_000_000, Number.MAX_SAFE_INTEGER]) {
      const page = await getPage(token, `${TWO_DAYS}&offset=${offset}`);
      assertEquals([page.total, page.offset, page.items], [2, offset, []]);
    }
    assertEquals((await getPage(token, `${TWO_DAYS}&offset=1`)).items.length, 1);
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
});

describe("401", () => {
  it("is one answer for all that is no active key, and challenges by RFC 6750", async () => {
    const { id, apiKeyId, token } = await organizationWith();
    await revokeApiKey(admin, { organization_id: id, id: apiKeyId });
    const [active, expired] = [await createApiKey(admin, id), await createApiKey(admin, id)];
    await sql`update audit_log_private.api_keys set expires_at = now() where id = ${expired.id}`;
    const { data: { session } } = await admin.client.auth.getSession();
    const others: Record<string, string>[] = [
      {},
      { Authorization: "Basic YTpi" },
      // A token is taken from nowhere but Authorization.
      { apikey: active.token },
      { Cookie: `token=${active.token}` },
    ];
    const tokens = [
      "nonsense",
      active.token.slice(0, -1),
      UNKNOWN_TOKEN,
      token,
      expired.token,
      SECRET_KEY,
      session?.access_token,
    ];
    const answers = [];
    for (const given of [...others, ...tokens.map((t) => ({ Authorization: `Bearer ${t}` }))]) {
      const response = await send(`?${TWO_DAYS}`, { headers: given });
      const { request_id, ...body } = await response.json();
      const { date: _, "www-authenticate": challenge, "x-request-id": id, ...headers } = Object
        .fromEntries(response.headers);
      assertEquals(request_id, id);
      const error = given.Authorization?.startsWith("Bearer") ? ', error="invalid_token"' : "";
      assertEquals(challenge, `Bearer realm="public-audit-log"${error}`);
      answers.push({ status: response.status, body, headers });
    }
    assertEquals([answers[0]?.status, answers[0]?.body.code], [401, "unauthorized"]);
    for (const answer of answers) assertEquals(answer, answers[0]);
    assertEquals(await statusOnly(send(`?${TWO_DAYS}&access_token=${active.token}`)), 401);
  });
});

describe("404 and 405", () => {
  it("405 for every method but GET, with Allow, before the key is looked at", async () => {
    const { token } = await organizationWith();
    for (const method of ["HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"]) {
      for (const init of [{}, withKey(token)]) {
        const { status, headers, body } = await send(`?${TWO_DAYS}`, { method, ...init });
        await body?.cancel();
        assertEquals([status, headers.get("Allow")], [405, "GET"], method);
      }
    }
    const { headers, body } = await get(token);
    await body?.cancel();
    assertEquals(headers.get("RateLimit"), '"default";r=59;t=60');
  });

  it("404 for every path below the function, before anything else; 200 with a slash at the end", async () => {
    const { token } = await organizationWith();
    for (const path of ["/x", "/public-audit-log", "//", "/%00"]) {
      for (const method of ["GET", "POST"]) {
        const answer = send(`${path}?${TWO_DAYS}`, { method, ...withKey(token) });
        assertEquals(await statusOnly(answer), 404, `${method} ${path}`);
      }
    }
    assertEquals(await statusOnly(send(`/?${TWO_DAYS}`, withKey(token))), 200);
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
});
