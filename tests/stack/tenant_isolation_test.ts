import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  ACTIONS,
  age,
  createApiKey,
  type Entry,
  getPage,
  MESSAGE_DATA,
  newOrganization,
  type Page,
  pick,
  type Random,
  randomFrom,
  signUp,
  sql,
  writeEntries,
} from "../helpers.ts";

const admin = await signUp();

const DAYS = ["2026-02-28", "2026-03-01", "2026-03-02", "2026-03-29", "2026-03-30"];
/** Few, so that many entries share one; the edges of a day and of a millisecond among them. */
const TIMES = ["00:00:00.000000", "09:30:00.000999", "09:30:00.001000", "23:59:59.999999"];

/** An organization, two keys for it, and its entries, to the microsecond. */
interface Tenant {
  id: string;
  keys: { apiKeyId: string; token: string }[];
  entries: (Entry & Page["items"][number])[];
}

async function randomTenant(random: Random): Promise<Tenant> {
  const { id, apiKeyId, token } = await newOrganization(admin);
  const other = await createApiKey(admin, id);
  const entries = Array.from({ length: random(200) }, () => ({
    id: `${random(2 ** 32).toString(16).padStart(8, "0")}-0000-4000-8000-000000000000`,
    created_at: `${pick(random, DAYS)}T${pick(random, TIMES)}Z`,
    action: pick(random, ACTIONS),
    user_email: `${random(1000)}@example.com`,
    agent_name: `agent of ${id}`,
    data: { ...MESSAGE_DATA, message_id: `m-${random(1000)}` },
  }));
  return { id, keys: [{ apiKeyId, token }, { apiKeyId: other.id, token: other.token }], entries };
}

/** A query string without a page, and what an organization's key must see with it. */
function randomQuery(random: Random, { entries }: Tenant): [URLSearchParams, Page["items"]] {
  const [start = "", end = ""] = [pick(random, DAYS), pick(random, DAYS)].sort();
  const action = pick(random, [null, ...ACTIONS]);
  const order = pick(random, ["asc", "desc"]);
  const seen = entries
    .filter(({ created_at }) => start <= created_at && created_at.slice(0, 10) <= end)
    .filter((entry) => !action || entry.action === action)
    .sort((a, b) => a.created_at + a.id < b.created_at + b.id ? -1 : 1)
    .map((entry) => ({ ...entry, created_at: `${entry.created_at.slice(0, 23)}Z` }));
  if (order === "desc") seen.reverse();
  const query = new URLSearchParams({ start, end, order, ...action && { action } });
  return [query, seen];
}

/** All that a key sees, by pages. */
async function readAll(token: string, query: URLSearchParams, limit: number): Promise<Page> {
  const pages: Page[] = [];
  let offset = 0;
  do {
    const page = await getPage(token, `${query}&limit=${limit}&offset=${offset}`);
    pages.push(page);
    offset += limit;
  } while (pages.at(-1)?.items.length === limit);
  const [first] = pages;
  if (!first) throw new Error("no page");
  return { ...first, items: pages.flatMap(({ items }) => items) };
}

describe("random organizations, keys, days and actions", () => {
  it("show each key exactly the entries of its organization, by pages of any size", async () => {
    const random = randomFrom(1815);
    const tenants: Tenant[] = [];
    for (let i = 0; i < 5; i++) tenants.push(await randomTenant(random));
    // Mixed, as they come in truth: a few of one organization, a few of another.
    const unwritten = tenants.map(({ id, entries }) => ({ id, entries: [...entries] }));
    while (unwritten.some(({ entries }) => entries.length > 0)) {
      const { id, entries } = pick(random, unwritten);
      if (entries.length > 0) await writeEntries(id, entries.splice(0, 1 + random(40)));
    }
    for (let i = 0; i < 150; i++) {
      const tenant = pick(random, tenants);
      const { apiKeyId, token } = pick(random, tenant.keys);
      const [query, expected] = randomQuery(random, tenant);
      await age(sql, apiKeyId, "60 seconds");
      const page = await readAll(token, query, 5 + random(pick(random, [10, 300])));
      assertEquals(page.items, expected, query.toString());
      assertEquals([page.organization_id, page.total], [tenant.id, expected.length]);
    }
  });
});
