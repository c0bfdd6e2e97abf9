// Needs a stack.

import { assertEquals, assertMatch } from "@std/assert";
import { it } from "@std/testing/bdd";
import { codeOf, getPage, getProblem, headOf, insertEntry } from "../helpers/mod.ts";
import { type NewApiKey, newLog, newOrganization, quotaOf, refusalOf } from "../helpers/mod.ts";
import { revokeApiKey, type Run, send, signUp, sql, TWO_DAYS, withKey } from "../helpers/mod.ts";

/** Adds an action that only this test uses, and returns its code. */
async function newAction(required: string[] = [], code = `test.${crypto.randomUUID()}`) {
  await sql`
    insert into audit_log.actions (code, description, required) values (${code}, 'Of a test', ${required})`;
  return code;
}

async function write(id: string, action: string, data: object = {}, run: Run = sql): Promise<void> {
  await insertEntry(run, id, { action, data: JSON.stringify(data), created_at: "2026-03-01" });
}

async function totalOf(token: string, action: string): Promise<number> {
  return (await getPage(token, `${TWO_DAYS}&action=${action}`)).total;
}

async function actionsOf(token: string) {
  return await (await send("/actions", withKey(token))).json();
}

it("an action can be written, listed and asked for as soon as it is added. Before that, it is refused with 400, together with every other bad parameter", async () => {
  const { id, token } = await newLog({});
  const code = `test.${crypto.randomUUID()}`;
  const query = `start=2026-02-30&end=2026-03-01&action=${code}&limit=0`;
  const { errors = [] } = await getProblem(400, token, query);
  assertEquals(errors.map(({ parameter }) => parameter), ["start", "action", "limit"]);
  assertMatch(errors[1]?.detail ?? "", /must be one of: agent_added, conversation_created,/);
  await newAction([], code);
  await write(id, code);
  assertEquals(await totalOf(token, code), 1);
  assertEquals((await getPage(token)).total, 2);
  const { organization_id, total, items } = await actionsOf(token);
  assertEquals([organization_id, total], [id, items.length]);
  const added = { code, description: "Of a test", required: [], deprecated_at: null };
  assertEquals(items.at(-1), { ...added, target: null, target_name: null });
});

it("an action has as its target the field that the catalogue names, or the first that it demands, and no entry changes", async () => {
  const { id, token } = await newLog();
  const code = await newAction(["thing_id", "owner_id"]);
  await write(id, code, { name: "Thing", thing_id: "t1", owner_id: "o1" });
  const page = async () => await (await send(`?${TWO_DAYS}`, withKey(token))).text();
  const before = await page();
  const change = (target: string | null, name: string | null) =>
    sql`update audit_log.actions set target = ${target}, target_name = ${name} where code = ${code}`;
  const names = [["owner_id", "name"], [null, "name"], [null, null]] as const;
  for (const [target, name] of names) {
    await change(target, name);
    const { items } = await actionsOf(token);
    const shown = [items.at(-1)?.target, items.at(-1)?.target_name];
    assertEquals(shown, [target ?? "thing_id", name]);
  }
  assertEquals(await page(), before);
  const nameOfNothing =
    sql`update audit_log.actions set target_name = 'name' where code = ${await newAction()}`;
  for (const refused of [change("", "name"), change("thing_id", ""), nameOfNothing]) {
    assertEquals(await codeOf(refused), "23514");
  }
});

it("an action demands each of its fields as a string, whatever the field's name, which it must have. Its code may have 63 characters, is a word, and does not begin with audit_log_", async () => {
  const { id, token } = await newLog();
  const code = `A.b:c-${crypto.randomUUID().toUpperCase()}`.padEnd(63, "_");
  const required = ["", "a.b", "$", `it's "quoted" \\`, "ä☃", "null", "0"];
  await newAction(required, code);
  const data = Object.fromEntries(required.map((name) => [name, "text"]));
  await write(id, code, data);
  assertEquals(await totalOf(token, code), 1);
  assertEquals((await actionsOf(token)).items.at(-1)?.required, required);
  const expected = `23514 an entry breaks the rule data_has_required: ${required.join(", ")}`;
  for (const name of required) {
    for (const bad of [undefined, 1, ["text"]]) {
      assertEquals(await refusalOf(write(id, code, { ...data, [name]: bad })), expected);
    }
  }
  const codes = ["", "a b", "a'b", 'a"b', "a\nb", "ä", "-a", "x".repeat(64), "audit_log_x"];
  for (const code of codes) assertEquals(await codeOf(newAction([], code)), "23514", code);
  assertEquals(await codeOf(newAction(["a", null] as never)), "23514");
});

it("an action cannot be renamed or deleted once an entry has it, and stays readable when it is deprecated", async () => {
  const { id, token } = await newLog();
  const [used, unused] = [await newAction(), await newAction()];
  await write(id, used);
  for (
    const change of ["delete from audit_log.actions", "update audit_log.actions set code = 'x'"]
  ) {
    const refusal = await refusalOf(sql.unsafe(`${change} where code = $1`, [used]));
    assertMatch(refusal, /cannot be renamed or deleted, only deprecated/);
  }
  assertEquals(await codeOf(sql`truncate audit_log.actions`), "42501");
  await sql`update audit_log.actions set deprecated_at = '2026-03-01Z' where code = ${used}`;
  await sql`delete from audit_log.actions where code = ${unused}`;
  assertEquals(await totalOf(token, used), 1);
  const { items } = await actionsOf(token);
  const found = items.find(({ code }: { code: string }) => code === used);
  assertEquals(found.deprecated_at, "2026-03-01T00:00:00.000Z");
});

it("an action can demand a new field of every later entry. A change at repeatable read is refused", async () => {
  const { id } = await newLog();
  const action = await newAction();
  const writer = await sql.reserve();
  for (let n = 0; n < 2; n++) await write(id, action, {}, writer);
  const change = (run: Run) =>
    run`update audit_log.actions set required = '{ticket}' where code = ${action}`;
  assertEquals(await codeOf(sql.begin("isolation level repeatable read", change)), "25000");
  await write(id, action, {}, writer);
  // A writer whose snapshot is older than the change.
  await writer`begin isolation level repeatable read`;
  await writer`select from audit_log.actions`;
  await change(sql);
  assertEquals(await codeOf(write(id, action, { ticket: "T-1" }, writer)), "40001");
  await writer`rollback`;
  assertEquals(await codeOf(write(id, action, {}, writer)), "23514");
  await write(id, action, { ticket: "T-1" }, writer);
  writer.release();
});

it("the list of actions needs a key, takes no parameter, counts as a request, and is JSON whatever Accept says", async () => {
  const { token } = await newLog();
  const ndjson = withKey(token, { Accept: "application/x-ndjson" });
  const quota = await quotaOf(sql);
  const requests = [
    ["/actions", {}, 401, undefined, "application/problem+json"],
    ["/actions?limit=1", ndjson, 400, `r=${quota - 1}`, "application/problem+json"],
    ["/actions/", ndjson, 200, `r=${quota - 2}`, "application/json"],
  ] as const;
  for (const [address, init, ...expected] of requests) {
    const { status, headers } = await headOf(send(address, init));
    const left = headers.get("RateLimit")?.match(/r=\d+/)?.[0];
    assertEquals([status, left, headers.get("Content-Type")], expected);
  }
});

it("the acts of administrators are logged with the person, the key and the address, only where the organization asks for it", async () => {
  const admin = await signUp();
  const [logged, other] = [await newOrganization(admin), await newOrganization(admin)];
  await sql`update audit_log.organizations set logs_key_events = true where id = ${logged.id}`;
  // The first is refused, so it is not logged.
  for (const name of ["", "made"]) {
    await admin.client.rpc("create_api_key", { organization_id: logged.id, name });
  }
  for (const { id: organization_id, apiKeyId: api_key_id } of [logged, other]) {
    const { data } = await admin.client.rpc("rotate_api_key", { organization_id, api_key_id })
      .setHeader("X-Forwarded-For", "forged, 203.0.113.7").throwOnError();
    const { id } = data as unknown as NewApiKey;
    // The second revocation is not logged.
    for (let i = 0; i < 2; i++) await revokeApiKey(admin, { organization_id, id });
  }
  const rows = await sql`
    select concat_ws(' by ', action, user_email, agent_name) as act, data from audit_log.audit_entries
    where organization_id in (${logged.id}, ${other.id}) order by created_at`;
  const acts = ["created", "rotated", "revoked"]
    .map((act) => `api_key_${act} by ${admin.email} by API keys`);
  assertEquals(rows.map((row) => row["act"]), acts);
  const [created, rotated, revoked] = rows.map((row) => row["data"]);
  assertEquals([created.name, rotated.api_key_id], ["made", logged.apiKeyId]);
  assertEquals(rotated.successor_id, revoked.api_key_id);
  assertEquals([rotated.caller.id, rotated.caller.kind], [admin.id, "person"]);
  assertMatch(`${rotated.hint} ${rotated.caller.address}`, /^pck_.* [0-9a-f.:]+$/);
});
