import { assertEquals, assertMatch } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  type Entry,
  errorOf,
  getPage,
  getProblem,
  newOrganization,
  revokeApiKey,
  send,
  signUp,
  sql,
  TWO_DAYS,
  withKey,
  writeEntries,
} from "../helpers.ts";

const admin = await signUp();

/** Adds an action that only this test uses. */
async function newAction(required: string[] = []): Promise<string> {
  const code = `test.${crypto.randomUUID()}`;
  await sql`
    insert into audit_log.actions (code, description, required) values (${code}, 'Of a test', ${required})`;
  return code;
}

describe("an action that is added while the service runs", () => {
  it("is written, listed and a filter at once", async () => {
    const { id, token } = await newOrganization(admin);
    const { errors = [] } = await getProblem(400, token, `${TWO_DAYS}&action=test.unknown`);
    assertMatch(errors[0]?.detail ?? "", /^"test.unknown": must be one of: agent_added, /);
    const action = await newAction();
    await writeEntries(id, [{ action, data: {} }, {}] as Entry[]);
    const page = await getPage(token, `${TWO_DAYS}&action=${action}`);
    assertEquals([page.total, page.items.map((item) => item.action)], [1, [action]]);
    assertEquals((await getPage(token, TWO_DAYS)).total, 2);
    const list = await (await send("/actions", withKey(token))).json();
    assertEquals(list.organization_id, id);
    assertEquals(list.total, list.items.length);
    assertEquals(list.items.at(-1), {
      code: action,
      description: "Of a test",
      required: [],
      deprecated_at: null,
    });
  });

  it("is refused without a field that it requires, by name and as a string", async () => {
    const { id } = await newOrganization(admin);
    const action = await newAction(["ticket", `it's "quoted" \\`]);
    const good = { ticket: "T-1", [`it's "quoted" \\`]: "yes" };
    await writeEntries(id, [{ action, data: good }] as Entry[]);
    for (
      const data of [{}, { ticket: "T-1" }, { ...good, ticket: 1 }, { ...good, ticket: ["T-1"] }]
    ) {
      const { code, message } = await errorOf(insert(id, action, data));
      assertEquals([code, message], ["23514", "an entry breaks the rule data_has_required"]);
    }
  });

  it("cannot be renamed or deleted once an entry has it, and stays readable when it is deprecated", async () => {
    const { id, token } = await newOrganization(admin);
    const [used, unused] = [await newAction(), await newAction()];
    await insert(id, used, {});
    for (
      const change of [
        sql`delete from audit_log.actions where code = ${used}`,
        sql`update audit_log.actions set code = 'other' where code = ${used}`,
      ]
    ) assertMatch((await errorOf(change)).message, /cannot be renamed or deleted, only deprecated/);
    await sql`update audit_log.actions set deprecated_at = '2026-03-01Z' where code = ${used}`;
    await sql`delete from audit_log.actions where code = ${unused}`;
    assertEquals((await getPage(token, `start=2026-01-01&end=9999-12-31&action=${used}`)).total, 1);
    const { items } = await (await send("/actions", withKey(token))).json();
    const { deprecated_at } = items.find(({ code }: { code: string }) => code === used);
    assertEquals(deprecated_at, "2026-03-01T00:00:00.000Z");
  });
});

/** Writes an entry of now. */
function insert(id: string, action: string, data: object) {
  return sql`
    insert into audit_log.audit_entries (organization_id, action, user_email, agent_name, data)
    values (${id}, ${action}, 'ada@example.com', 'Assistant', ${sql.json(data as never)})`;
}

describe("an action that is not in the catalogue", () => {
  it("is refused when it is written, with its name and that of the table", async () => {
    const { id } = await newOrganization(admin);
    const { code, message } = await errorOf(insert(id, `agent_aded`, {}));
    assertEquals(code, "23503");
    assertEquals(
      message,
      'an entry has the action "agent_aded", which is not in the table audit_log.actions',
    );
  });

  for (const code of ["", "a b", "a'b", 'a"b', "a\nb", "ä", "-a", "x".repeat(64)]) {
    it(`cannot be added as ${JSON.stringify(code)}`, async () => {
      const { code: error } = await errorOf(sql`
        insert into audit_log.actions (code, description) values (${code}, 'Of a test')`);
      assertEquals(error, "23514");
    });
  }

  it("is 400 beside every other bad parameter, also where it could be no code", async () => {
    const { token } = await newOrganization(admin);
    for (const action of ["", "a%00b", "x".repeat(64), "Agent_Added"]) {
      const query = `start=2026-02-30&end=2026-03-01&action=${action}&limit=0`;
      const { errors = [] } = await getProblem(400, token, query);
      assertEquals(errors.map(({ parameter }) => parameter), ["start", "action", "limit"]);
      assertMatch(
        errors[1]?.detail ?? "",
        /must be one of: agent_added, conversation_created, message_created, feedback_given/,
      );
    }
  });
});

describe("the acts of administrators", () => {
  it("are in the log of an organization that asks for it, with who, which key and from where, and in no other", async () => {
    const [logged, other] = [await newOrganization(admin), await newOrganization(admin)];
    await sql`update audit_log.organizations set logs_key_events = true where id = ${logged.id}`;
    for (const { id, apiKeyId } of [logged, other]) {
      const { data } = await admin.client.rpc("rotate_api_key", {
        organization_id: id,
        api_key_id: apiKeyId,
      }).setHeader("X-Forwarded-For", "forged, 203.0.113.7").throwOnError();
      const successor = data as unknown as { id: string };
      // Revoked twice, once is logged.
      for (let i = 0; i < 2; i++) {
        await revokeApiKey(admin, { organization_id: id, id: successor.id });
      }
    }
    const rows = await sql`
      select action, user_email, data from audit_log.audit_entries
      where organization_id in (${logged.id}, ${other.id}) order by created_at`;
    assertEquals(rows.map(({ action, user_email }) => [action, user_email]), [
      ["api_key_rotated", admin.email],
      ["api_key_revoked", admin.email],
    ]);
    const [rotated, revoked] = rows.map((row) => row["data"]);
    assertEquals(rotated.api_key_id, logged.apiKeyId);
    assertEquals(rotated.successor_id, revoked.api_key_id);
    assertEquals(rotated.user_id, admin.id);
    assertMatch(rotated.hint, /^pck_/);
    assertMatch(rotated.address, /^[0-9a-f.:]+$/);
  });
});
