// Needs a stack.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { it } from "@std/testing/bdd";
import contract from "../../docs/openapi.json" with { type: "json" };
import { ANSWER_EXAMPLES } from "../../dev/tasks/openapi_examples.ts";
import { ACTIONS, addKeys, age, ALL_DAYS, call, type Entry, exhaust } from "../helpers/mod.ts";
import { follow, get, getPage, getProblem, goOn, insertEntries } from "../helpers/mod.ts";
import { insertEntry, MESSAGE_DATA, newLog, newOrganization, type Page } from "../helpers/mod.ts";
import { pageQuery, pick, type Query, queryOf, quotaOf, type Random } from "../helpers/mod.ts";
import { randomFrom, revoke, rolledBack, runUpkeep, SECRET_KEY, send } from "../helpers/mod.ts";
import { signUp, sql, statusOnly, TWO_DAYS, UNKNOWN_TOKEN, valueOf } from "../helpers/mod.ts";
import { withKey, writeEntries } from "../helpers/mod.ts";

const admin = await signUp();
const NDJSON = { Accept: "application/x-ndjson" };

const DAYS = ["0001-01-01", "2024-02-29", "2026-02-28", "2026-03-01", "2026-03-30", "9999-12-31"];
/** Few, so that many entries share one. Among them are the edges of a day and of an hour, and one hour has many. */
const TIMES = ["00:00:00.000", "09:00:00.000", "09:30:00.000", "09:30:00.001", "23:59:59.999"];
/** Ends of ranges: single days, parts of months, whole months, all days. */
const EDGES = [...DAYS, "2024-02-01", "2026-03-31"];
/** Values of `data`, of which only the texts are objects, and only where they are no part of another value. */
const VALUES = ["o 1", "O 1", "1", 1, null, ["o 1"], { id: "o 1" }];
const PERSONS = "ada@example.com Ada@example.com ad_@example.com %@x.y аda@x.y éda@x.y Éda@x.y"
  .split(" ");

interface Tenant {
  id: string;
  keys: { apiKeyId: string; token: string }[];
  entries: (Entry & Page["items"][number])[];
}

async function randomTenant(random: Random): Promise<Tenant> {
  const { id } = await newOrganization(admin);
  const entries = Array.from({ length: random(400) }, () => ({
    id: `${random(2 ** 32).toString(16).padStart(8, "0")}-0000-4000-8000-000000000000`,
    created_at: `${pick(random, DAYS)}T${pick(random, TIMES)}Z`,
    action: pick(random, ACTIONS),
    user_email: pick(random, PERSONS),
    agent_name: `agent of ${id}`,
    data: { ...MESSAGE_DATA, about: pick(random, VALUES) },
  }));
  return { id, keys: await addKeys(sql, id, 2), entries };
}

/** Makes a query without a page, and the entries that an organization's key must see with it, oldest first. */
function randomQuery(random: Random, { entries }: Tenant): [URLSearchParams, Page["items"]] {
  const [start = "", end = ""] = [pick(random, EDGES), pick(random, EDGES)].sort();
  const actions: string[] = pick(random, [[], [], ACTIONS.filter(() => random(2) === 0)]);
  const person = random(2) ? null : pick(random, PERSONS);
  const object = random(2) ? null : pick(random, ["o 1", "1", MESSAGE_DATA.agent_id]);
  // A part of the range, which can be less than a millisecond, or days without an end.
  const times = [start, end].map((day) => `${day}T${pick(random, TIMES)}Z`).sort();
  const since = pick(random, [null, times[0]]);
  const isExact = times[0] !== times[1] && random(2) === 0;
  const until = pick(random, [null, times[1]?.replace("Z", isExact ? "Z" : "5Z")]);
  const seen = entries
    .filter(({ created_at }) => start <= created_at && created_at.slice(0, 10) <= end)
    .filter(({ created_at }) =>
      (!since || since <= created_at) && (!until || created_at.slice(0, -1) < until.slice(0, -1))
    )
    .filter((entry) => actions.length === 0 || actions.includes(entry.action))
    .filter((entry) => !person || toLower(entry.user_email) === toLower(person))
    .filter(({ data }) => !object || Object.values(data).includes(object))
    .sort(byTime);
  const filters = { since, until, action: actions.join(","), user_email: person, object };
  const query = new URLSearchParams({ start, end });
  for (const [name, value] of Object.entries(filters)) if (value) query.set(name, value);
  return [query, seen];
}

function byTime(a: Page["items"][number], b: Page["items"][number]): number {
  return a.created_at + a.id < b.created_at + b.id ? -1 : 1;
}

function toLower(email: string): string {
  return email.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase());
}

/** Returns how many entries the chart of a query has on each day, as the console shows it, and in total. */
async function charted(organization_id: string, given: URLSearchParams) {
  const { start = "", end = "", action, ...filters } = Object.fromEntries(given);
  const query = pageQuery(start, end, { actions: action?.split(",") ?? null, ...filters } as Query);
  const counted = { organization_id, query };
  type Chart = { total: number; items: { day: string; entries: number }[] };
  const { total, items } = await call<Chart>(admin, "daily_entry_counts", counted);
  return { ...Object.fromEntries(items.map(({ day, entries }) => [day, entries])), total };
}

/** Returns the items of a page and of all that its links lead to. Each must have the same total. */
async function readAll(token: string, query: string, total: number): Promise<Page["items"]> {
  const response = await get(token, query);
  const page: Page = await response.json();
  assertEquals(page.total, total, query);
  const next = response.headers.get("Link")?.match(/<([^>]*)>; rel="next"/)?.[1];
  if (!next) return page.items;
  return [...page.items, ...await readAll(token, new URL(next).search.slice(1), total)];
}

/** Returns the headers that two answers share. */
function sharedHeaders(response: Response): Record<string, string> {
  const headers = Object.fromEntries(response.headers);
  // How the runtime frames the body, and whether it compresses it, depends on its length.
  headers.vary = headers.vary?.replace("Accept-Encoding, ", "") ?? "";
  const framing = ["content-length", "transfer-encoding"];
  for (const name of ["date", "x-request-id", ...framing]) delete headers[name];
  return headers;
}

async function answerTo(token: string, query: string, accept: Record<string, string> = {}) {
  const response = await send(query, withKey(token, accept));
  assertEquals(response.status, 200);
  const { ratelimit: _, ...headers } = sharedHeaders(response);
  return { text: await response.text(), headers };
}

it("the API answers 200 to the contract's examples, all at once, as tools send them in their first request", async () => {
  const { token } = await newLog(ANSWER_EXAMPLES.AuditEntry);
  for (const [path, { get: { parameters } }] of Object.entries(contract.paths)) {
    const query = new URLSearchParams();
    let place = path.replace(/^\/[^/]+/, "");
    for (const { in: where, name, example } of parameters) {
      // Tools make up a value for a parameter without one.
      assert(example !== undefined, name);
      if (where === "query") query.set(name, String(example));
      else place = place.replace(`{${name}}`, String(example));
    }
    const response = await send(`${place}?${query}`, withKey(token));
    assertEquals(response.status, 200, await response.text());
  }
});

it("the API gives each key exactly its organization's entries, for random days, times, actions, persons and objects, in pages and in the feed; the chart counts the same", async () => {
  const random = randomFrom(1815);
  const tenants: Tenant[] = [];
  for (let i = 0; i < 3; i++) tenants.push(await randomTenant(random));
  // They have read nothing yet.
  const followers: (() => Promise<void>)[] = [];
  for (const tenant of [1, 2, 3, 4, 5].flatMap(() => tenants)) {
    const { apiKeyId, token } = pick(random, tenant.keys);
    const [query, expected] = randomQuery(random, tenant);
    const first = `${query}&after=beginning&limit=${pick(random, [7, 40, 1000])}`;
    const next = goOn(first, await getPage(token, first));
    followers.push(async () => {
      await age(sql, apiKeyId, "60 seconds");
      assertEquals((await follow(token, next)).items.sort(byTime), expected, next);
    });
  }
  // The organizations' entries are mixed, as in production.
  const unwritten = tenants.map(({ id, entries }) => ({ id, entries: [...entries] }));
  while (unwritten.some(({ entries }) => entries.length > 0)) {
    const { id, entries } = pick(random, unwritten);
    if (entries.length > 0) await writeEntries(id, entries.splice(0, 1 + random(40)));
    // Some counts are then compacted, some are not, and some are in part.
    if (random(8) === 0) await runUpkeep(sql);
  }
  for (const assertFollowed of followers) await assertFollowed();
  for (const { id, entries } of tenants) {
    const gone = entries.splice(0, random(20)).map(({ id }) => id ?? "");
    await sql`
      delete from audit_log.audit_entries
      where organization_id = ${id} and id = any(${gone}::text[]::uuid[])`;
  }
  for (let i = 0; i < 150; i++) {
    const tenant = pick(random, tenants);
    const { apiKeyId, token } = pick(random, tenant.keys);
    const [query, expected] = randomQuery(random, tenant);
    await age(sql, apiKeyId, "60 seconds");
    const limit = pick(random, [40, 1000]);
    const { items } = await follow(token, `${query}&after=beginning&limit=${limit}`);
    assertEquals(items, expected, `${query}`);
    const counts: Record<string, number> = { total: expected.length };
    for (const { created_at } of expected) {
      const day = created_at.slice(0, 10);
      counts[day] = (counts[day] ?? 0) + 1;
    }
    assertEquals(await charted(tenant.id, query), counts, `${query}`);
    const order = pick(random, ["asc", "desc"]);
    if (order === "desc") expected.reverse();
    const offset = pick(random, [0, random(20), expected.length]);
    const page = `order=${order}&limit=${5 + random(pick(random, [10, 300]))}&offset=${offset}`;
    const read = await readAll(token, `${query}&${page}`, expected.length);
    assertEquals(read, expected.slice(offset), `${query}&${page}`);
  }
});

it("the API gives one entry with the bytes of a page, by its id in any capitals and its created_at in any zone, and counts it", async () => {
  const data = `{"n": 12345678901234567890.50, "x": ["${"é,\\n".repeat(100)}"]}`;
  const { id, apiKeyId, token } = await newLog();
  await insertEntry(sql, id, { created_at: "2026-03-01T22:30:00.005Z", data });
  const [entry] = (await getPage(token)).items;
  const times = ["2026-03-01T22:30:00.005Z", "2026-03-02T00:30:00.005000%2B02:00"];
  for (const time of times) {
    const address = `/entries/${entry?.id.toUpperCase()}/?created_at=${time}`;
    const response = await send(address, withKey(token, NDJSON));
    assertEquals(response.headers.get("Content-Type"), "application/json");
    const [line] = (await (await get(token)).text()).match(/\{"id".*(?=\]\}$)/s) ?? [];
    assertEquals(await response.text(), line);
  }
  const used = await sql`
    select requests, invalid_requests, entries::integer, read_mode from audit_log_private.rate_limits
    where api_key_id = ${apiKeyId}`.values();
  assertEquals([...used], [[5, 0, 5, "pages"]]);
});

it("the API answers 404 about an entry of another organization as about one that never was, with the limit's headers", async () => {
  const time = "0001-01-01T00:00:00.000Z";
  const [{ token }, other] = [await newLog({ created_at: time }), await newLog({})];
  const [own] = (await getPage(token, ALL_DAYS)).items;
  const [entry] = (await getPage(other.token)).items;
  const addresses = [
    [entry?.id, entry?.created_at],
    [crypto.randomUUID(), time],
    [own?.id, "0001-01-01T00:00:00.000001Z"],
    // Before the first day that there is.
    [own?.id, "0001-01-01T00:00:00%2B14:00"],
  ];
  const quota = await quotaOf(sql);
  const answers = [];
  for (const [id, created_at] of addresses) {
    const response = await send(`/entries/${id}?created_at=${created_at}`, withKey(token));
    const { request_id: _, ...body } = await response.json();
    const { ratelimit, ...headers } = sharedHeaders(response);
    assertEquals(ratelimit, `"default";r=${quota - 2 - answers.length};t=60`);
    answers.push({ status: response.status, headers, body });
  }
  assertEquals([answers[0]?.status, answers[0]?.body.code], [404, "entry_not_found"]);
  for (const answer of answers) assertEquals(answer, answers[0]);
});

it("the API says in a 400 which part of the address of an entry is wrong, to holders of a key only, and is not reached by other paths and methods", async () => {
  const { token } = await newLog();
  const id = crypto.randomUUID();
  const time = "created_at=2026-03-01T12:00:00Z";
  const refused: [address: string, bad: string[]][] = [
    [`${id}`, ["created_at"]],
    [`${id}?created_at=2026-03-01`, ["created_at"]],
    [`${id}?${time}&${time}`, ["created_at"]],
    [`${id}?${time}&start=2026-03-01&id=${id}`, ["id", "start"]],
    [`${id.slice(1)}?${time}`, ["id"]],
    [`${id}%00?${time}`, ["id"]],
    [`${UNKNOWN_TOKEN}?created_at=${UNKNOWN_TOKEN}`, ["created_at", "id"]],
  ];
  for (const [address, bad] of refused) {
    const response = await send(`/entries/${address}`, withKey(token));
    const { code, errors = [] } = await response.json();
    assertEquals([response.status, code], [400, "invalid_parameters"], address);
    assertEquals(errors.map(({ parameter }: { parameter: string }) => parameter).sort(), bad);
    assertEquals(JSON.stringify(errors).includes(UNKNOWN_TOKEN), false);
    assertEquals(await statusOnly(send(`/entries/${address}`)), 401);
  }
  for (const address of ["", "/", `/${id}/x?${time}`, `/${id}//?${time}`]) {
    assertEquals(await statusOnly(send(`/entries${address}`, withKey(token))), 404, address);
  }
  for (const method of ["HEAD", "OPTIONS", "POST"]) {
    const answer = send(`/entries/${id}?${time}`, { ...withKey(token), method });
    assertEquals(await statusOnly(answer), 405, method);
  }
});

it("the API gives a page of at most 100 entries, if no other limit is asked for, its seven fields and an entry its six, in the contract's order", async () => {
  const { token } = await newLog({});
  const page = await getPage(token);
  assertEquals([page.limit, page.offset, page.total], [100, 0, 1]);
  const fields = "organization_id start end total limit offset items".split(" ");
  assertEquals(Object.keys(page), fields);
  const [entry = {}] = page.items;
  const ofEntry = "id created_at action user_email agent_name data".split(" ");
  assertEquals(Object.keys(entry), ofEntry);
  const times = { since: "2026-03-01T01:00:00+01:00", until: "2026-03-02T00:00:00.5Z" };
  const query = `${new URLSearchParams(times)}&limit=7`;
  const { organization_id: _, total: __, items: ___, ...asked } = await getPage(token, query);
  const days = { start: "0001-01-01", end: "9999-12-31" };
  assertEquals(asked, { ...days, ...times, limit: 7, offset: 0 });
});

it("the API answers with the first error that applies, in the order of the table in docs/api.md", async () => {
  const page = await Deno.readTextFile(new URL("../../docs/api.md", import.meta.url));
  const codes = Array.from(page.matchAll(/^\| \d{3} +\| `(\w+)`/gm), ([, code]) => code);
  const [revoked, exhausted, active] = [await newLog(), await newLog(), await newLog()];
  await revoke(sql, revoked.apiKeyId);
  for (const { apiKeyId } of [revoked, exhausted]) await exhaust(sql, apiKeyId);
  const entry = `/entries/${crypto.randomUUID()}?created_at=`;
  // Each has one fault less than the one before.
  const requests = [
    ["/x?created_at=x", "POST", "pck_"],
    [`${entry}x`, "POST", "pck_"],
    [`${entry}x`, "GET", "pck_"],
    [`${entry}x`, "GET", revoked.token],
    [`${entry}x`, "GET", exhausted.token],
    [`${entry}x`, "GET", active.token],
    [`${entry}2026-03-01T12:00:00Z`, "GET", active.token],
  ] as const;
  const answers: string[] = [];
  for (const [address, method, token] of requests) {
    answers.push((await (await send(address, { ...withKey(token), method })).json()).code);
  }
  const twice = codes.flatMap((code) => code === "unauthorized" ? [code, code] : code);
  assertEquals([...answers, "internal_error"], twice);
});

it("the API counts a person's entries up to a bound, and beyond it says that they are too many", async () => {
  const { id, apiKeyId } = await newLog();
  const given = { action: "message_created", data: JSON.stringify(MESSAGE_DATA) };
  await insertEntries(sql, id, "2026-03-01", 20, { ...given, user_email: "at@bound" });
  await insertEntries(sql, id, "2026-03-01", 21, { ...given, user_email: "beyond@bound" });
  await insertEntries(sql, id, "2026-03-05", 9, { user_email: "at@bound" });
  const answers = await rolledBack(sql, async (transaction) => {
    const bounded: string = await valueOf(transaction`
      select pg_get_functiondef('audit_log_private.count_matching'::regproc)`);
    await transaction.unsafe(bounded.replace(/\b1000000\b/g, "20").replace(/\b1000001\b/g, "21"));
    const days = { start_date: "2026-03-01", end_date: "2026-03-02", actions: [given.action] };
    const query = queryOf(transaction, { ...days, page_limit: 1 });
    return await transaction`
      select answer::json ->> 'decision' as decision, answer::json ->> 'total' as total
      from unnest('{at@bound,beyond@bound}'::text[]) as email, unnest('{null,beginning}'::text[]) as after,
        audit_log_private.answer_request(${id}, ${apiKeyId}, 'entries', jsonb_populate_record(
          ${query}, jsonb_build_object('user_email', email, 'after', after)
        ), null) as answer
      order by email, after`;
  });
  const [counted, refused] = [["accepted", "20"], ["too_many", null]];
  const expected = [counted, counted, refused, refused];
  assertEquals(answers.map((row) => Object.values(row)), expected);
});

it("the API looks through 25,000 entries for an object. More are too many for a page, but not for the feed, which reads 10,000 a page", async () => {
  const { id, token } = await newLog();
  const about = { data: '{"x": "o", "y": "o"}', created_at: "2026-03-02T00:00:00Z" };
  await insertEntries(sql, id, "2026-03-01", 24_999, { action: "agent_added" });
  await insertEntry(sql, id, about);
  const { total, items } = await getPage(token, `${TWO_DAYS}&object=o&action=agent_added`);
  assertEquals([total, items.length], [1, 1]);
  await insertEntry(sql, id, { action: "feedback_given" });
  assertEquals((await getPage(token, `${TWO_DAYS}&object=o&action=agent_added`)).total, 1);
  await insertEntry(sql, id, { created_at: about.created_at });
  const { errors } = await getProblem(400, token, `${TWO_DAYS}&object=o&action=agent_added`);
  const detail = '"o": too many entries to look through: at most 25,000 may match the other ' +
    "parameters. Ask for a shorter time, or follow the log with after=beginning";
  assertEquals(errors, [{ parameter: "object", detail }]);
  const found: [number, number, boolean | undefined][] = [];
  for (let query = `${TWO_DAYS}&object=o&after=beginning`; query;) {
    const page = await getPage(token, query);
    found.push([page.total, page.items.length, page.has_more]);
    query = page.has_more ? goOn(query, page) : "";
  }
  // So many are looked through.
  assertEquals(found, [[25_001, 0, true], [25_001, 0, true], [25_001, 1, false]]);
});

it("the API refuses actions that are an array of arrays, which only callers of the database can give", async () => {
  const { id } = await newLog({ action: "agent_added" });
  const query = queryOf(sql, { actions: [["agent_added"]] as never });
  const page = sql`select decision from audit_log_private.read_page(${id}, ${query})`;
  assertEquals(await valueOf(page), "invalid_query");
});

it("the API gives NDJSON the bytes and the headers that JSON has, with every text and number exact", async () => {
  const { id, token } = await newLog();
  const agent_name = 'a,\n"[{}],"Ünï \\ 会話 🎉 \u2028 <b>';
  const text = 'x,\n{"a":1},\u2028\r\n';
  const x = [text, [], { a: [null] }];
  const data = `{"n": 12345678901234567890.50, "x": ${JSON.stringify(x)}}`;
  for (const created_at of ["2026-03-01Z", "2026-03-02Z"]) {
    await insertEntry(sql, id, { created_at, agent_name, data, user_email: `${agent_name}@x` });
  }
  for (const query of ["&limit=1", "&offset=2", "&limit=2&after=beginning"]) {
    const json = await answerTo(token, `?${TWO_DAYS}${query}`);
    const lines = await answerTo(token, `?${TWO_DAYS}${query}`, NDJSON);
    const items = json.text.match(/"items":\[(.*)\]\}$/s)?.[1];
    assertEquals(lines.text.split("\n").slice(0, -1).join(",\n"), items);
    // A cursor is another text each time.
    const shared = query.includes("after") ? {} : json.headers;
    assertEquals(lines.headers, { ...lines.headers, ...shared, "content-type": NDJSON.Accept });
    const { "x-total-count": total, vary } = lines.headers;
    assertEquals([total, vary], ["2", "Authorization, Accept"]);
  }
  const page = await (await get(token)).text();
  assertStringIncludes(page, "12345678901234567890.50");
  const [item] = JSON.parse(page).items;
  const read = [item.agent_name, item.user_email, item.data.x];
  assertEquals(read, [agent_name, `${agent_name}@x`, x]);
  // Errors are JSON even so.
  assertEquals(await statusOnly(send("?start=x", withKey(token, NDJSON))), 400);
});

it("the API answers everything but an active key with the same 401 and a challenge as in RFC 6750", async () => {
  const [active, revoked, expired] = [await newLog(), await newLog(), await newLog()];
  await revoke(sql, revoked.apiKeyId);
  await sql`update audit_log_private.api_keys set expires_at = now() where id = ${expired.apiKeyId}`;
  const { data: { session } } = await admin.client.auth.getSession();
  const tokens = [UNKNOWN_TOKEN, revoked.token, expired.token, active.token.slice(0, -1)];
  tokens.push("nonsense", SECRET_KEY, session?.access_token ?? "");
  const requests: Record<string, string>[] = [
    ...tokens.map((token) => ({ Authorization: `Bearer ${token}` })),
    { Authorization: "Basic YTpi" },
    // A token is taken from nowhere but Authorization.
    {},
    { apikey: active.token },
    { Cookie: `token=${active.token}` },
  ];
  const answers = [];
  for (const given of requests) {
    const response = await send(`?${TWO_DAYS}`, { headers: given });
    const { request_id, ...body } = await response.json();
    assertEquals(request_id, response.headers.get("X-Request-Id"));
    const { "www-authenticate": challenge, ...headers } = sharedHeaders(response);
    const error = given.Authorization?.startsWith("Bearer") ? ', error="invalid_token"' : "";
    assertEquals(challenge, `Bearer realm="public-audit-log"${error}`);
    answers.push({ status: response.status, body, headers });
  }
  assertEquals([answers[0]?.status, answers[0]?.body.code], [401, "unauthorized"]);
  for (const answer of answers) assertEquals(answer, answers[0]);
  assertEquals(await statusOnly(send(`?${TWO_DAYS}&access_token=${active.token}`)), 401);
});
