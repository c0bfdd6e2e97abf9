import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import axios from "npm:axios@1.21.1";
import got from "npm:got@16.1.0";
import ky from "npm:ky@2.1.0";
import li from "npm:li@1.3.0";
import parseLinkHeader from "npm:parse-link-header@2.0.0";
import { AUDIT_LOG_URL, newLog, type Page, writeEntries } from "../helpers.ts";

type Query = Record<string, string>;

interface Answer {
  page: Page;
  link: string;
}

/** A client with a base address and a key: its first request, and one to an address from `Link`. */
interface LinkClient {
  first(query: Query): Promise<Answer>;
  follow(address: string): Promise<Answer>;
}

type ClientName = "axios" | "axios with a path of /" | "ky" | "got";
type ParserName = "li" | "parse-link-header" | "octokit";

/** How people set these clients up. */
const CLIENTS: Record<ClientName, (base: string, token: string) => LinkClient> = {
  axios: (base, token) => newAxios(base, token, ""),
  "axios with a path of /": (base, token) => newAxios(base, token, "/"),
  ky(base, token) {
    const client = ky.create({ headers: { Authorization: `Bearer ${token}` }, retry: 0 });
    const answer = async (response: Response): Promise<Answer> => ({
      page: await response.json(),
      link: response.headers.get("Link") ?? "",
    });
    return {
      first: async (searchParams) =>
        await answer(await client.extend({ prefix: base }).get("", { searchParams })),
      follow: async (address) => await answer(await client.get(address)),
    };
  },
  got(base, token) {
    const client = got.extend({
      headers: { authorization: `Bearer ${token}` },
      retry: { limit: 0 },
    });
    const answer = ({ body, headers }: { body: string; headers: Record<string, unknown> }) => ({
      page: JSON.parse(body) as Page,
      link: String(headers["link"]),
    });
    return {
      first: async (searchParams) =>
        answer(await client.get("", { prefixUrl: base, searchParams })),
      follow: async (address) => answer(await client.get(address)),
    };
  },
};

function newAxios(baseURL: string, token: string, path: string): LinkClient {
  const client = axios.create({ baseURL, headers: { Authorization: `Bearer ${token}` } });
  const ask = async (address: string, params: Query = {}): Promise<Answer> => {
    const { data, headers } = await client.get<Page>(address, { params });
    return { page: data, link: String(headers["link"]) };
  };
  return { first: (query) => ask(path, query), follow: ask };
}

/** How people read `Link`. */
const PARSERS: Record<ParserName, (link: string) => string | undefined> = {
  li: (link) => (li.parse(link) as Record<string, string>)["next"],
  "parse-link-header": (link) => parseLinkHeader(link)?.["next"]?.url,
  // As @octokit/plugin-paginate-rest does it.
  octokit: (link) => link.match(/<([^<>]+)>;\s*rel="next"/)?.[1],
};

describe("a client that follows Link", () => {
  const slash = `${AUDIT_LOG_URL}/`;
  const cases: [ClientName, string, ParserName][] = [
    ["axios", AUDIT_LOG_URL, "li"],
    ["axios", slash, "parse-link-header"],
    ["axios with a path of /", slash, "octokit"],
    ["ky", AUDIT_LOG_URL, "octokit"],
    ["ky", slash, "li"],
    ["got", AUDIT_LOG_URL, "parse-link-header"],
    ["got", slash, "octokit"],
  ];
  for (const [name, base, parser] of cases) {
    const [newClient, nextOf] = [CLIENTS[name], PARSERS[parser]];
    const slashes = base === slash ? "with" : "without";
    it(`reads all pages, then follows the log: ${name} and ${parser}, from a base address ${slashes} a slash`, async () => {
      const names = ["a", "b", "c", "d", "e"];
      const { id, token } = await newLog(...names.map((agent_name) => ({ agent_name })));
      const client = newClient(base, token);
      const query = { start: "2026-03-01", end: "2026-03-02", limit: "2" };
      for (const feed of [{}, { after: "beginning" }]) {
        let { page, link } = await client.first({ ...query, ...feed });
        const seen = page.items;
        let next = nextOf(link);
        while (page.has_more !== false && next) {
          ({ page, link } = await client.follow(next));
          next = nextOf(link);
          seen.push(...page.items);
        }
        assertEquals(seen.map((item) => item.agent_name).sort(), names);
        assertEquals(next !== undefined, "after" in feed);
        if (!next) continue;
        await writeEntries(id, [{ agent_name: "new" }]);
        ({ page } = await client.follow(next));
        assertEquals(page.items.map((item) => item.agent_name), ["new"]);
      }
    });
  }
});
