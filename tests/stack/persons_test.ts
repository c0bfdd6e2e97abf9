import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  age,
  type Entry,
  get,
  getPage,
  getProblem,
  insertEntries,
  newOrganization,
  pick,
  randomFrom,
  rolledBack,
  signUp,
  sql,
  writeEntries,
} from "../helpers.ts";

const admin = await signUp();
const PERSONS = [
  "ada@example.com",
  "Ada@example.com",
  "ad_@example.com",
  "%@example.com",
  "аda@example.com",
];
const RANGE = "start=2026-03-01&end=2026-03-03";

const { id, apiKeyId, token } = await newOrganization(admin);
const random = randomFrom(28);
const entries: Entry[] = Array.from({ length: 300 }, (_, n) => ({
  // Many at the same moment, and some outside the range.
  created_at: `2026-03-0${1 + random(4)}T0${random(3)}:00:00Z`,
  action: pick(random, ["agent_added", "feedback_given"]),
  user_email: pick(random, PERSONS),
  agent_name: `${n}`,
  data: {},
}));
await writeEntries(id, entries);
const everything = (await getPage(token, `${RANGE}&limit=1000`)).items;

describe("the entries of a person", () => {
  for (const person of PERSONS) {
    it(`are those of ${person} alone, in every page and order, with the exact total, with an action too`, async () => {
      for (const action of ["", "&action=feedback_given"]) {
        await age(sql, apiKeyId, "61 seconds");
        const expected = everything.filter((item) =>
          item.user_email === person && (!action || item.action === "feedback_given")
        );
        const query = `${RANGE}&user_email=${encodeURIComponent(person)}${action}`;
        for (const order of ["asc", "desc"]) {
          const inOrder = order === "asc" ? expected : expected.toReversed();
          for (const offset of [0, 7, expected.length - 3, expected.length]) {
            const page = await getPage(token, `${query}&limit=5&offset=${offset}&order=${order}`);
            assertEquals(page.total, expected.length);
            assertEquals(page.items, inOrder.slice(offset, offset + 5));
          }
        }
        const feed = await getPage(token, `${query}&after=beginning&limit=1000`);
        assertEquals([feed.items, feed.has_more], [expected, false]);
      }
    });
  }

  it("are followed by a cursor, which is refused for another person", async () => {
    const followed = await newOrganization(admin);
    const of = (person: string) => `${RANGE}&user_email=${encodeURIComponent(person)}`;
    await writeEntries(followed.id, entries.slice(0, 20));
    const first = await getPage(followed.token, `${of("ada@example.com")}&after=beginning`);
    const after = new URL(first.next ?? "").searchParams.get("after");
    await writeEntries(followed.id, [
      { created_at: "2026-03-01T00:00:00Z", user_email: "ada@example.com", agent_name: "new" },
      { created_at: "2026-03-01T00:00:00Z", user_email: "eve@example.com" },
    ]);
    const second = await getPage(followed.token, new URL(first.next ?? "").search.slice(1));
    assertEquals(second.items.map((item) => item.agent_name), ["new"]);
    await getProblem(400, followed.token, `${of("eve@example.com")}&after=${after}`);
    await getProblem(400, followed.token, `${RANGE}&after=${after}`);
  });

  it("are followed from the beginning without a look at other persons' entries", async () => {
    const large = await newOrganization(admin);
    await insertEntries(sql, large.id, "2026-03-01", 10_500);
    await writeEntries(large.id, [{ user_email: "last@person", created_at: "2026-03-02" }]);
    const page = await getPage(large.token, `${RANGE}&user_email=last%40person&after=beginning`);
    assertEquals([page.items.length, page.has_more], [1, false]);
  });

  it("are counted up to a bound; beyond it the answer is that they are too many", async () => {
    const many = await newOrganization(admin);
    const of = (email: string, count: number): Entry[] =>
      Array.from({ length: count }, () => ({ user_email: email, agent_name: "many" }));
    await writeEntries(many.id, [...of("at@bound", 20), ...of("beyond@bound", 21), {
      action: "feedback_given",
      user_email: "at@bound",
      created_at: "2026-03-05",
    }]);
    const answers = await rolledBack(sql, async (transaction) => {
      const [row] = await transaction`
        select pg_get_functiondef('audit_log_private.count_matching'::regproc) as definition`;
      const bounded: string = row?.["definition"];
      await transaction.unsafe(bounded.replace(/\b1000000\b/, "20").replace(/\b1000001\b/, "21"));
      return await transaction`
        select email, after, answer::json ->> 'decision' as decision, answer::json #>> '{page,total}' as total
        from unnest(${["at@bound", "beyond@bound"]}::text[]) as email,
          unnest('{null,beginning}'::text[]) as after,
          audit_log_private.answer_request(${many.id}, ${many.apiKeyId}, 'entries', (
            '2026-03-01', '2026-03-02', 'message_created', email, 1, 0, false, after
          )::audit_log.page_query, null) as answer
        order by 1, 2`;
    });
    assertEquals(answers.map(({ decision, total }) => [decision, total]), [
      ["accepted", "20"],
      ["accepted", "20"],
      ["too_many", null],
      ["too_many", null],
    ]);
  });

  it("tell nothing about another organization", async () => {
    const { token: stranger } = await newOrganization(admin);
    const page = await getPage(stranger, `${RANGE}&user_email=ada%40example.com`);
    assertEquals([page.total, page.items], [0, []]);
  });

  it("have links to other pages that keep the person", async () => {
    const response = await get(token, `${RANGE}&user_email=ada%40example.com&limit=5`);
    const link = response.headers.get("Link")?.match(/<([^>]+)>; rel="next"/)?.[1] ?? "";
    assertEquals(new URL(link).searchParams.get("user_email"), "ada@example.com");
    await response.body?.cancel();
  });

  for (
    const [name, value] of [["empty", ""], ["NUL", "a%00@b"], ["long", "x".repeat(321)]] as const
  ) {
    it(`are not asked for with an address that is ${name}: 400`, async () => {
      const { errors = [] } = await getProblem(400, token, `${RANGE}&user_email=${value}`);
      assertEquals(errors.map(({ parameter }) => parameter), ["user_email"]);
    });
  }
});
