import { assert, assertEquals, assertMatch } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  ACTIONS,
  addKeys,
  age,
  client,
  createApiKey,
  type Entry,
  exhaust,
  get,
  getPage,
  getProblem,
  insertEntries,
  insertEntry,
  MESSAGE_DATA,
  newLog,
  newOrganization,
  nextOf,
  type Page,
  pick,
  type Random,
  randomFrom,
  revokeApiKey,
  rolledBack,
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

const NDJSON = "application/x-ndjson";

describe("GET: the page", () => {
  it("has the fields of the contract, in full", async () => {
    const { id, token } = await newLog({
      created_at: "2026-03-01T08:09:10.123Z",
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

  it("passes text and data on as they are: quotes, other scripts, nesting, long numbers", async () => {
    const { id, token } = await newLog();
    const agent_name = 'Ünï "quoted" \\ 会話 🎉 \u2028 <b>';
    const user_email = `${agent_name}@example.com`;
    const data = '{"n": 12345678901234567890.5, "deep": {"list": [null, true, "\\u00e9"]}}';
    await insertEntry(sql, id, { created_at: "2026-03-01", user_email, agent_name, data });
    const body = await (await get(token)).text();
    const [item] = JSON.parse(body).items;
    assertEquals([item.agent_name, item.user_email], [agent_name, user_email]);
    assertEquals(item.data.deep, { list: [null, true, "é"] });
    assert(body.includes("12345678901234567890.5"), body);
  });

  it("has whole UTC days, the first and the last of the range and nothing beside it", async () => {
    const { token } = await newLog(
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

  it("has 1000 entries at most, 100 when not asked, and none beyond the end; the total stays true", async () => {
    const { id, token } = await newLog();
    const empty = await getPage(token);
    assertEquals([empty.total, empty.limit, empty.offset, empty.items], [0, 100, 0, []]);
    await insertEntries(sql, id, "2026-03-01", 1001);
    for (
      const [query, entries] of [
        ["", 100],
        ["&limit=1000", 1000],
        ["&offset=1000", 1],
        ["&offset=1001", 0],
        [`&offset=${Number.MAX_SAFE_INTEGER}`, 0],
      ] as const
    ) {
      const { total, items } = await getPage(token, TWO_DAYS + query);
      assertEquals([total, items.length], [1001, entries], query);
    }
  });
});

const DAYS = ["2024-02-29", "2026-02-28", "2026-03-01", "2026-03-02", "2026-03-30"];
/** Few, so that many entries share one; the edges of a day and of a millisecond among them. */
const TIMES = ["00:00:00.000000", "09:30:00.000999", "09:30:00.001000", "23:59:59.999999"];
/** Ends of ranges of days, of parts of months, of whole months and of all. */
const EDGES = [...DAYS, "0001-01-01", "2024-02-01", "2026-03-31", "9999-12-31"];
const PERSONS = ["ada@example.com", "Ada@example.com", "ad_@example.com", "%@x.y", "аda@x.y"];

interface Tenant {
  id: string;
  keys: { apiKeyId: string; token: string }[];
  /** To the microsecond. */
  entries: (Entry & Page["items"][number])[];
}

async function randomTenant(random: Random): Promise<Tenant> {
  const { id } = await newLog();
  const entries = Array.from({ length: random(200) }, () => ({
    id: `${random(2 ** 32).toString(16).padStart(8, "0")}-0000-4000-8000-000000000000`,
    created_at: `${pick(random, DAYS)}T${pick(random, TIMES)}Z`,
    action: pick(random, ACTIONS),
    user_email: pick(random, PERSONS),
    agent_name: `agent of ${id}`,
    data: MESSAGE_DATA,
  }));
  return { id, keys: await addKeys(sql, id, 2), entries };
}

/** A query without a page, and what an organization's key must see with it, oldest first. */
function randomQuery(random: Random, { entries }: Tenant): [URLSearchParams, Page["items"]] {
  const [start = "", end = ""] = [pick(random, EDGES), pick(random, EDGES)].sort();
  const action = pick(random, [null, null, ...ACTIONS]);
  const person = pick(random, [null, null, ...PERSONS]);
  const seen = entries
    .filter(({ created_at }) => start <= created_at && created_at.slice(0, 10) <= end)
    .filter((entry) => !action || entry.action === action)
    .filter((entry) => !person || entry.user_email === person)
    .sort((a, b) => a.created_at + a.id < b.created_at + b.id ? -1 : 1)
    .map((entry) => ({ ...entry, created_at: `${entry.created_at.slice(0, 23)}Z` }));
  const query = { start, end, ...action && { action }, ...person && { user_email: person } };
  return [new URLSearchParams(query), seen];
}

/** The items of a page and of all that its links lead to; each must have the same total. */
async function readAll(token: string, query: string, total: number): Promise<Page["items"]> {
  const response = await get(token, query);
  const page: Page = await response.json();
  assertEquals(page.total, total, query);
  const next = response.headers.get("Link")?.match(/<([^>]*)>; rel="next"/)?.[1];
  if (!next) return page.items;
  return [...page.items, ...await readAll(token, new URL(next).search.slice(1), total)];
}

describe("GET: random organizations, keys, days, actions and persons", () => {
  it("give each key exactly the entries of its organization, with the exact total, by pages and by the feed", async () => {
    const random = randomFrom(1815);
    const tenants: Tenant[] = [];
    for (let i = 0; i < 4; i++) tenants.push(await randomTenant(random));
    // Mixed, as they come in truth: a few of one organization, a few of another.
    const unwritten = tenants.map(({ id, entries }) => ({ id, entries: [...entries] }));
    while (unwritten.some(({ entries }) => entries.length > 0)) {
      const { id, entries } = pick(random, unwritten);
      if (entries.length > 0) await writeEntries(id, entries.splice(0, 1 + random(40)));
      // So some counts are compacted, some are not, and some are in part.
      if (random(8) === 0) await runUpkeep(sql);
    }
    for (const tenant of tenants) {
      const gone = tenant.entries.splice(0, random(20)).map(({ id }) => id);
      await sql`delete from audit_log.audit_entries where organization_id = ${tenant.id} and id in ${
        sql(["00000000-0000-4000-8000-000000000000", ...gone])
      }`;
    }
    for (let i = 0; i < 150; i++) {
      const tenant = pick(random, tenants);
      const { apiKeyId, token } = pick(random, tenant.keys);
      const [query, expected] = randomQuery(random, tenant);
      await age(sql, apiKeyId, "60 seconds");
      const { items, has_more } = await getPage(token, `${query}&after=beginning&limit=1000`);
      assertEquals([items, has_more], [expected, false], `${query}`);
      const order = pick(random, ["asc", "desc"]);
      if (order === "desc") expected.reverse();
      const offset = pick(random, [0, random(20), expected.length]);
      const page = `order=${order}&limit=${5 + random(pick(random, [10, 300]))}&offset=${offset}`;
      const read = await readAll(token, `${query}&${page}`, expected.length);
      assertEquals(read, expected.slice(offset), `${query}&${page}`);
    }
  });
});

describe("GET: user_email", () => {
  it("finds a person's first entries without a look at those of others", async () => {
    const { id, token } = await newLog({ user_email: "last@person", created_at: "2026-03-02" });
    await insertEntries(sql, id, "2026-03-01", 10_500);
    const page = await getPage(token, `${TWO_DAYS}&user_email=last%40person&after=beginning`);
    assertEquals([page.items.length, page.has_more], [1, false]);
  });

  it("is counted up to a bound; beyond it the answer is that the entries are too many", async () => {
    const { id, apiKeyId } = await newLog();
    const given = { action: "message_created", data: JSON.stringify(MESSAGE_DATA) };
    await insertEntries(sql, id, "2026-03-01", 20, { ...given, user_email: "at@bound" });
    await insertEntries(sql, id, "2026-03-01", 21, { ...given, user_email: "beyond@bound" });
    await insertEntries(sql, id, "2026-03-01", 9, { user_email: "at@bound" });
    const answers = await rolledBack(sql, async (transaction) => {
      const [row] = await transaction`
        select pg_get_functiondef('audit_log_private.count_matching'::regproc) as definition`;
      const bounded: string = row?.["definition"];
      await transaction.unsafe(bounded.replace(/\b1000000\b/, "20").replace(/\b1000001\b/, "21"));
      return await transaction`
        select answer::json ->> 'decision' as decision, answer::json #>> '{page,total}' as total
        from unnest('{at@bound,beyond@bound}'::text[]) as email, unnest('{null,beginning}'::text[]) as after,
          audit_log_private.answer_request(${id}, ${apiKeyId}, 'entries', (
            '2026-03-01', '2026-03-02', 'message_created', email, 1, 0, false, after
          )::audit_log.page_query, null) as answer
        order by email, after`;
    });
    const [counted, refused] = [["accepted", "20"], ["too_many", null]];
    assertEquals(
      answers.map(({ decision, total }) => [decision, total]),
      [counted, counted, refused, refused],
    );
  });
});

/** An answer's body, and all headers that two answers share. */
async function answerTo(token: string, query: string, Accept = "application/json") {
  const init = { headers: { Authorization: `Bearer ${token}`, Accept } };
  const response = await send(query, init);
  assertEquals(response.status, 200);
  const headers = Object.fromEntries(response.headers);
  for (const name of ["date", "ratelimit", "x-request-id", "content-length"]) delete headers[name];
  return { text: await response.text(), headers };
}

describe("GET: application/x-ndjson", () => {
  it("has each entry on a line, byte for byte as JSON has it, and all other headers", async () => {
    const odd = {
      agent_name: 'a,\n"[{}],"',
      data: { ...MESSAGE_DATA, text: 'x,\n{"a":1},\u2028\r\n', list: [1, [2], { a: [] }] },
    };
    const { token } = await newLog(odd, { created_at: "2026-03-02T12:00:00Z", ...odd });
    for (const query of ["&limit=1", "&offset=2", "&limit=2&after=beginning"]) {
      const json = await answerTo(token, `?${TWO_DAYS}${query}`);
      const lines = await answerTo(token, `?${TWO_DAYS}${query}`, NDJSON);
      const items = json.text.match(/"items":\[(.*)\]\}$/s)?.[1];
      assertEquals(lines.text.split("\n").slice(0, -1).join(",\n"), items);
      // A cursor is another text each time.
      const shared = query.includes("after") ? {} : json.headers;
      assertEquals(lines.headers, { ...lines.headers, ...shared, "content-type": NDJSON });
      const { "x-total-count": total, vary } = lines.headers;
      assertEquals([total, vary], ["2", "Authorization, Accept"]);
    }
  });

  it("leaves errors and seals as they are", async () => {
    const headers = { Authorization: `Bearer ${(await newLog()).token}`, Accept: NDJSON };
    for (
      const [query, type] of [
        ["?start=x", "application/problem+json"],
        [`/seals?${TWO_DAYS}`, "application/json"],
      ] as const
    ) {
      const response = await send(query, { headers });
      await response.body?.cancel();
      assertEquals(response.headers.get("Content-Type"), type);
    }
  });
});

describe("GET: organization_id", () => {
  async function setExternalId(id: string, external_id: string | null): Promise<void> {
    await client("service_role").from("organizations")
      .update({ external_id }).eq("id", id).throwOnError();
  }

  it("is what the platform calls the organization, as long as it says so; nothing else changes", async () => {
    const { id, token } = await newLog({}, { action: "agent_added" });
    await runUpkeep(sql);
    const texts = async (accept?: string) => {
      const queries = [`?${TWO_DAYS}`, `/seals?${TWO_DAYS}`];
      return (await Promise.all(queries.map((query) => answerTo(token, query, accept))))
        .map(({ text }) => text);
    };
    const [before, [lines]] = [await texts(), await texts(NDJSON)];
    for (const name of [`"Kunde\t${id}"\n{é}`, `org_${id.slice(0, 8)}`, null]) {
      await setExternalId(id, name);
      const quoted = JSON.stringify(name ?? id);
      assertEquals(await texts(), before.map((text) => text.replace(`"${id}"`, quoted)));
      assertEquals((await texts(NDJSON))[0], lines);
    }
  });

  it("may change while a reader follows: cursors go on, and each entry comes once", async () => {
    const { id, token } = await newLog({ user_email: "0@example.com" });
    let query = `${TWO_DAYS}&after=beginning`;
    for (const [n, name] of [null, `a_${id}`, `b_${id}`, null, `a_${id}`].entries()) {
      await setExternalId(id, name);
      const page = await getPage(token, query);
      const emails = page.items.map(({ user_email }) => user_email);
      assertEquals([page.organization_id, emails], [name ?? id, [`${n}@example.com`]]);
      query = nextOf(page);
      await writeEntries(id, [{ user_email: `${n + 1}@example.com` }]);
    }
  });
});

describe("a refusal", () => {
  it("is one 401 for all that is no active key, and challenges by RFC 6750", async () => {
    const admin = await signUp();
    const { id, apiKeyId, token } = await newOrganization(admin);
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

  it("is 405 for every method but GET, with Allow; 404 for every path below the function", async () => {
    const { token } = await newLog();
    for (const method of ["HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"]) {
      for (const init of [{}, withKey(token)]) {
        const { status, headers, body } = await send(`?${TWO_DAYS}`, { method, ...init });
        await body?.cancel();
        assertEquals([status, headers.get("Allow")], [405, "GET"], method);
      }
    }
    for (const path of ["/x", "/public-audit-log", "//", "/%00"]) {
      for (const method of ["GET", "POST"]) {
        const answer = send(`${path}?${TWO_DAYS}`, { method, ...withKey(token) });
        assertEquals(await statusOnly(answer), 404, `${method} ${path}`);
      }
    }
    // None of these has counted; a slash at the end changes nothing.
    const { status, headers, body } = await send(`/?${TWO_DAYS}`, withKey(token));
    await body?.cancel();
    assertEquals([status, headers.get("RateLimit")], [200, '"default";r=59;t=60']);
  });

  it("is 405 before 401 before 429 before 400", async () => {
    const { apiKeyId, token } = await newLog();
    await exhaust(sql, apiKeyId);
    const bad = "start=x";
    assertEquals(await statusOnly(send(`?${bad}`, { method: "POST" })), 405);
    await getProblem(401, UNKNOWN_TOKEN, bad);
    await getProblem(429, token, bad);
    await age(sql, apiKeyId, "60 seconds");
    await getProblem(400, token, bad);
  });
});
