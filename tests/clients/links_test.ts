import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import axios from "npm:axios@1.21.1";
import got from "npm:got@16.1.0";
import ky from "npm:ky@2.1.0";
import li from "npm:li@1.3.0";
import parseLinkHeader from "npm:parse-link-header@2.0.0";
import { AUDIT_LOG_URL, newLog, type Page, writeEntries } from "../helpers.ts";

type Query = Record<string, string>;

/** Asks an address from `Link`, or sends a query to the base address. */
type Ask = (next: string, query?: Query) => Promise<{ page: Page; link: unknown }>;

/** Sets each client up with a base address and a key, as people do. */
const CLIENTS: Record<string, (base: string, headers: Query) => Ask> = {
  axios(baseURL, headers) {
    const client = axios.create({ baseURL, headers });
    return async (next, params) => {
      const { data, headers } = await client.get(next, { params });
      return { page: data, link: headers["link"] };
    };
  },
  ky(prefix, headers) {
    const client = ky.create({ headers, retry: 0 });
    return async (next, searchParams) => {
      const response = await client.get(next, searchParams ? { prefix, searchParams } : {});
      return { page: await response.json(), link: response.headers.get("Link") };
    };
  },
  got(prefixUrl, headers) {
    const client = got.extend({ headers, retry: { limit: 0 } });
    return async (next, searchParams) => {
      const options = searchParams ? { prefixUrl, searchParams } : {};
      const { body, headers } = await client.get(next, options);
      return { page: JSON.parse(body), link: headers["link"] };
    };
  },
};

/** Reads `Link` as people do. */
const PARSERS: Record<string, (link: string) => string | undefined> = {
  li: (link) => (li.parse(link) as Query)["next"],
  "parse-link-header": (link) => parseLinkHeader(link)?.["next"]?.url,
  // As @octokit/plugin-paginate-rest does it.
  octokit: (link) => link.match(/<([^<>]+)>;\s*rel="next"/)?.[1],
};

describe("a client that follows Link", () => {
  for (const [name, newClient] of Object.entries(CLIENTS)) {
    for (const base of [AUDIT_LOG_URL, `${AUDIT_LOG_URL}/`]) {
      it(`reads all pages and then new entries: ${name}, from ${new URL(base).pathname}`, async () => {
        const names = ["a", "b", "c", "d", "e"];
        const { id, token } = await newLog(...names.map((agent_name) => ({ agent_name })));
        const ask = newClient(base, { Authorization: `Bearer ${token}` });
        const query = { start: "2026-03-01", end: "2026-03-02", limit: "2" };
        for (const feed of [{}, { after: "beginning" }]) {
          let { page, link } = await ask("", { ...query, ...feed });
          const seen = page.items;
          let next = nextOf(link);
          while (page.has_more !== false && next) {
            ({ page, link } = await ask(next));
            next = nextOf(link);
            seen.push(...page.items);
          }
          assertEquals(seen.map((item) => item.agent_name).sort(), names);
          assertEquals(next !== undefined, "after" in feed);
          if (!next) continue;
          await writeEntries(id, [{ agent_name: "new" }]);
          ({ page } = await ask(next));
          assertEquals(page.items.map((item) => item.agent_name), ["new"]);
        }
      });
    }
  }
});

/** The address of the next page, about which all parsers must agree. */
function nextOf(link: unknown): string | undefined {
  const [next, ...others] = Object.values(PARSERS).map((parse) => parse(String(link)));
  for (const other of others) assertEquals(other, next);
  return next;
}
