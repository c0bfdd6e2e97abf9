import { assert, assertEquals, assertMatch } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  type Entry,
  errorOf,
  getPage,
  getProblem,
  newOrganization,
  pidOf,
  revokeApiKey,
  type Run,
  send,
  signUp,
  somebodyWaitsFor,
  sql,
  TWO_DAYS,
  UNKNOWN_TOKEN,
  withKey,
  writeEntries,
} from "../helpers.ts";

const admin = await signUp();

/** Adds an action that only this test uses. */
async function newAction(required: string[] = [], code = `test.${crypto.randomUUID()}`) {
  await sql`
    insert into audit_log.actions (code, description, required) values (${code}, 'Of a test', ${required})`;
  return code;
}

const listOf = async (token: string) => await (await send("/actions", withKey(token))).json();

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
    const list = await listOf(token);
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
      assertEquals(code, "23514");
      assertEquals(message, `an entry breaks the rule data_has_required: ticket, it's "quoted" \\`);
    }
  });

  it("may have 63 characters, capitals, and names of any text that it requires", async () => {
    const { id, token } = await newOrganization(admin);
    const code = `A.b:c-${crypto.randomUUID().toUpperCase()}`.padEnd(63, "_");
    const required = ["", "a.b", "$", '"', "\\", "ä☃", "null", "0"];
    await newAction(required, code);
    const data = Object.fromEntries(required.map((name) => [name, "text"]));
    await writeEntries(id, [{ action: code, data }]);
    assertEquals((await getPage(token, `${TWO_DAYS}&action=${code}`)).total, 1);
    assertEquals((await listOf(token)).items.at(-1)?.required, required);
    for (const name of required) {
      const { code: error } = await errorOf(insert(id, code, { ...data, [name]: 1 }));
      assertEquals(error, "23514", name);
    }
    const { code: error } = await errorOf(sql`
      insert into audit_log.actions values ('test.null', '', array['a', null])`);
    assertEquals(error, "23514");
  });

  it("is written by two transactions at once that began before it was added, and no row is locked", async () => {
    const { id, token } = await newOrganization(admin);
    const code = `test.${crypto.randomUUID()}`;
    const write = (run: Run) =>
      run`
      insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name)
      values (${id}, '2026-03-01', ${code}, 'ada@example.com', 'Assistant')`;
    const [first, second, tooEarly] = [await sql.reserve(), await sql.reserve(), sql];
    for (const writer of [first, second]) {
      await writer`begin`;
      await writer`select from audit_log.actions`;
    }
    assertEquals((await errorOf(write(tooEarly))).code, "23503");
    await newAction([], code);
    await write(first);
    await write(second);
    const locked = await sql`
      select xmax from audit_log.actions where code = ${code} and xmax::text::bigint <> 0`;
    assertEquals([...locked], []);
    // Who deletes it waits for both, and is refused.
    const deletion = errorOf(sql`delete from audit_log.actions where code = ${code}`);
    await somebodyWaitsFor(second, await pidOf(first));
    for (const writer of [first, second]) {
      await writer`commit`;
      writer.release();
    }
    assertMatch((await deletion).message, /cannot be renamed or deleted/);
    assertEquals((await getPage(token, `${TWO_DAYS}&action=${code}`)).total, 2);
  });

  it("is one of 10,000, and nothing is slower or cut off", async () => {
    const { id, token } = await newOrganization(admin);
    const prefix = `many.${crypto.randomUUID()}`;
    await sql`
      insert into audit_log.actions (code, description)
      select ${prefix} || n, 'Of a test' from generate_series(1, 10000) as n`;
    const [action, action2] = [`${prefix}10000`, `${prefix}1`];
    await writeEntries(id, [{ action, data: {} }, { action: action2, data: {} }]);
    assertEquals((await getPage(token, `${TWO_DAYS}&action=${action}`)).total, 1);
    const { total, items } = await listOf(token);
    assertEquals([total > 10_000, items.length], [true, total]);
    const { errors = [] } = await getProblem(400, token, `${TWO_DAYS}&action=login`);
    assertMatch(errors[0]?.detail ?? "", /^"login": must be one of: agent_added, .*, …$/);
    assert((errors[0]?.detail ?? "").length < 7_000);
    await sql`
      delete from audit_log.actions where starts_with(code, ${prefix}) and code <> all (${[
      action,
      action2,
    ]})`;
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
    const { items } = await listOf(token);
    const { deprecated_at } = items.find(({ code }: { code: string }) => code === used);
    assertEquals(deprecated_at, "2026-03-01T00:00:00.000Z");
  });

  it("requires a new field of every writer at once, and cannot be changed by an old snapshot", async () => {
    const { id } = await newOrganization(admin);
    const action = await newAction();
    const writer = await sql.reserve();
    for (let n = 0; n < 2; n++) await insert(id, action, {}, writer);
    const change = (run: Run) =>
      run`update audit_log.actions set required = '{ticket}' where code = ${action}`;
    const late = sql.begin("isolation level repeatable read", change);
    assertEquals((await errorOf(late)).code, "25000");
    await insert(id, action, {}, writer);
    await change(sql);
    assertEquals((await errorOf(insert(id, action, {}, writer))).code, "23514");
    await insert(id, action, { ticket: "T-1" }, writer);
    writer.release();
    assertEquals((await errorOf(sql`truncate audit_log.actions`)).code, "42501");
  });
});

/** Writes an entry of now. */
function insert(id: string, action: string, data: object, run: Run = sql) {
  return run`
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

describe("the list of actions", () => {
  it("needs a key, takes no parameter, counts as a request, and is JSON whatever is accepted", async () => {
    const { token } = await newOrganization(admin);
    const statuses = [];
    for (
      const [address, init] of [
        ["/actions", {}],
        ["/actions", withKey(UNKNOWN_TOKEN)],
        ["/actions?limit=1", withKey(token)],
        ["/actions", { method: "POST", ...withKey(token) }],
        ["/actions/", {
          headers: { Authorization: `Bearer ${token}`, Accept: "application/x-ndjson" },
        }],
      ] as const
    ) {
      const { status, headers, body } = await send(address, init);
      statuses.push([
        status,
        headers.get("RateLimit")?.match(/r=\d+/)?.[0],
        headers.get("Content-Type"),
      ]);
      await body?.cancel();
    }
    const problem = "application/problem+json";
    assertEquals(statuses, [
      [401, undefined, problem],
      [401, undefined, problem],
      [400, "r=59", problem],
      [405, undefined, problem],
      [200, "r=58", "application/json"],
    ]);
  });
});

describe("the acts of administrators", () => {
  it("are in the log of an organization that asks for it, with who, which key and from where, and in no other", async () => {
    const [logged, other] = [await newOrganization(admin), await newOrganization(admin)];
    await sql`update audit_log.organizations set logs_key_events = true where id = ${logged.id}`;
    // One that is not made is not logged.
    for (const name of ["", "made"]) {
      await admin.client.rpc("create_api_key", { organization_id: logged.id, name });
    }
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
      ["api_key_created", admin.email],
      ["api_key_rotated", admin.email],
      ["api_key_revoked", admin.email],
    ]);
    const [created, rotated, revoked] = rows.map((row) => row["data"]);
    assertEquals(created.name, "made");
    assertEquals(rotated.api_key_id, logged.apiKeyId);
    assertEquals(rotated.successor_id, revoked.api_key_id);
    assertEquals(rotated.user_id, admin.id);
    assertMatch(rotated.hint, /^pck_/);
    assertMatch(rotated.address, /^[0-9a-f.:]+$/);
  });
});
