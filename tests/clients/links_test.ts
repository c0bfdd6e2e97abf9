import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import axios from "npm:axios@1.21.1";
import got from "npm:got@16.1.0";
import ky from "npm:ky@2.1.0";
import li from "npm:li@1.3.0";
import parseLinkHeader from "npm:parse-link-header@2.0.0";
import { AUDIT_LOG_URL, newLog, type Page, withKey, writeEntries } from "../helpers.ts";

type Query = Record<string, string>;

/** Sends a query to the base address, or asks an address from `Link`. */
type Ask = (to: Query | string) => Promise<{ page: Page; link: string }>;

/** Sets each client up with a base address and a key, as people do. */
const CLIENTS = {
  axios: (base: string, token: string) => newAxios(base, token, ""),
  "axios with a path of /": (base: string, token: string) => newAxios(base, token, "/"),
  ky(base: string, token: string): Ask {
    const client = ky.create({ ...withKey(token), retry: 0 });
    return async (to) => {
      const response = typeof to === "string"
        ? await client.get(to)
        : await client.extend({ prefix: base }).get("", { searchParams: to });
      return { page: await response.json(), link: response.headers.get("Link") ?? "" };
    };
  },
  got(base: string, token: string): Ask {
    const headers = { authorization: `Bearer ${token}` };
    const client = got.extend({ headers, retry: { limit: 0 } });
    return async (to) => {
      const { body, headers } = typeof to === "string"
        ? await client.get(to)
        : await client.get("", { prefixUrl: base, searchParams: to });
      return { page: JSON.parse(body), link: String(headers["link"]) };
    };
  },
};

function newAxios(baseURL: string, token: string, path: string): Ask {
  const client = axios.create({ baseURL, headers: { Authorization: `Bearer ${token}` } });
  return async (to) => {
    const { data, headers } = typeof to === "string"
      ? await client.get<Page>(to)
      : await client.get<Page>(path, { params: to });
    return { page: data, link: String(headers["link"]) };
  };
}

/** Reads `Link` as people do. */
const PARSERS = {
  li: (link: string) => (li.parse(link) as Query)["next"],
  "parse-link-header": (link: string) => parseLinkHeader(link)?.["next"]?.url,
  // As @octokit/plugin-paginate-rest does it.
  octokit: (link: string) => link.match(/<([^<>]+)>;\s*rel="next"/)?.[1],
};

describe("a client that follows Link", () => {
  const slash = `${AUDIT_LOG_URL}/`;
  const cases: [keyof typeof CLIENTS, string, keyof typeof PARSERS][] = [
    ["axios", AUDIT_LOG_URL, "li"],
    ["axios", slash, "parse-link-header"],
    ["axios with a path of /", slash, "octokit"],
    ["ky", AUDIT_LOG_URL, "octokit"],
    ["ky", slash, "li"],
    ["got", AUDIT_LOG_URL, "parse-link-header"],
    ["got", slash, "octokit"],
  ];
  for (const [name, base, parser] of cases) {
    const slashes = base === slash ? "with" : "without";
    it(`reads all pages and then new entries: ${name} and ${parser}, ${slashes} a slash after the base address`, async () => {
      const names = ["a", "b", "c", "d", "e"];
      const { id, token } = await newLog(...names.map((agent_name) => ({ agent_name })));
      const [ask, nextOf] = [CLIENTS[name](base, token), PARSERS[parser]];
      const query = { start: "2026-03-01", end: "2026-03-02", limit: "2" };
      for (const feed of [{}, { after: "beginning" }]) {
        let { page, link } = await ask({ ...query, ...feed });
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
});
