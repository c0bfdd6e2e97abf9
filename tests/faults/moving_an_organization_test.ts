import { assertEquals, assertMatch } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import postgres from "postgres";
import { startTemporaryStack, type TemporaryStack } from "../../local/temporary_stack.ts";
import type { SealsPage } from "../../supabase/functions/public-audit-log/page_schema.ts";
import { installCli } from "../clients/installed_cli.ts";
import { runRecipes } from "../clients/recipes.ts";

const installed = await installCli();
const [old, other] = [await startTemporaryStack(), await startTemporaryStack()];
const [from, to] = [old, other].map((stack) =>
  postgres(stack.databaseUrl, { onnotice: () => {} })
) as [postgres.Sql, postgres.Sql];
afterAll(async () => {
  await Promise.all([from.end(), to.end()]);
  await Promise.all([old, other].map((stack) => stack[Symbol.asyncDispose]()));
});

interface Organization {
  id: string;
  token: string;
}

async function newOrganization(sql: postgres.Sql): Promise<Organization> {
  const [row] = await sql`insert into audit_log.organizations (name) values ('Moved') returning id`;
  const id: string = row?.["id"];
  return { id, token: await newKey(sql, id) };
}

async function newKey(sql: postgres.Sql, id: string): Promise<string> {
  const [row] =
    await sql`select audit_log_private.insert_api_key(${id}, 'test') ->> 'token' as token`;
  return row?.["token"];
}

async function write(sql: postgres.Sql, id: string, day: string, entries: number): Promise<void> {
  await sql`
    insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name)
    select ${id}, ${`${day}T12:00:00Z`}::timestamptz + n * interval '1 second', 'agent_added',
      'ada@example.com', E'Tab\t, line\n, back\\slash, ümlaut ' || n
    from generate_series(1, ${entries}::int) as n`;
}

async function upkeep(sql: postgres.Sql): Promise<void> {
  while ((await sql`select audit_log_private.run_upkeep() as more`)[0]?.["more"]);
}

async function ask({ apiUrl }: TemporaryStack, token: string, query: string) {
  const response = await fetch(`${apiUrl}/functions/v1/public-audit-log${query}`, {
    headers: { Authorization: `Bearer ${token}` },
  });
  const link = response.headers.get("Link")?.match(/after=([^>&]+)/)?.[1] ?? "";
  return { status: response.status, body: await response.json(), after: link };
}

/** The seals that the new place has added to the three of the old one; no day may be altered. */
async function newSeals({ token }: Organization): Promise<string[]> {
  const { body } = await ask(other, token, "/seals?start=2026-11-01&end=2026-11-20");
  const { altered, items }: SealsPage = body;
  assertEquals(altered, []);
  assertEquals(
    items.map(({ previous }) => previous).slice(1),
    items.map(({ seal }) => seal).slice(0, -1),
  );
  return items.slice(3).map(({ sequence, day, entries, added, removed }) =>
    [sequence, day, entries, added, removed].join(" ")
  );
}

const ALL = "start=0001-01-01&end=9999-12-31&limit=1000";

describe("docs/scaling.md", () => {
  it("moves an organization with entries, counts, seals and keys, and leaves all others alone", async () => {
    // Numbers of later epochs than the new place's: unchanged, its readers would not see these entries.
    for (const [place, restores] of [[from, 3], [to, 1]] as const) {
      for (let n = 0; n < restores; n++) await place`select audit_log_private.adopt_restored_log()`;
    }
    await from`do $$ begin for n in 1..5000 loop perform pg_current_xact_id(); commit; end loop; end $$`;
    const moved = await newOrganization(from);
    const stays = await newOrganization(from);
    const resident = await newOrganization(to);
    const revoked = await newKey(from, moved.id);
    await from`update audit_log_private.api_keys set revoked_at = now() where organization_id = ${moved.id} and id =
      (select api_key_id from audit_log_private.api_key_hashes where token_hash = sha256(convert_to(${revoked}, 'UTF8')))`;
    for (
      const [day, entries] of [["2026-11-18", 3], ["2026-11-19", 1], ["2026-11-20", 4]] as const
    ) {
      await write(from, moved.id, day, entries);
    }
    await write(from, stays.id, "2026-11-20", 2);
    await write(to, resident.id, "2026-11-20", 2);
    await upkeep(from);
    await upkeep(to);
    // One that its day's seal has not seen, and one of a day that is not over.
    await write(from, moved.id, "2026-11-19", 1);
    await write(from, moved.id, new Date().toISOString().slice(0, 10), 1);
    const follower = await ask(other, resident.token, `?${ALL}&after=beginning`);
    const before = await ask(old, moved.token, `?${ALL}`);

    const { outputOf } = await runRecipes({
      OLD_DB_URL: old.databaseUrl,
      NEW_DB_URL: other.databaseUrl,
      OLD_URL: `${old.apiUrl}/functions/v1/public-audit-log`,
      NEW_URL: `${other.apiUrl}/functions/v1/public-audit-log`,
      ORGANIZATION_ID: moved.id,
      AUDIT_LOG_API_KEY: moved.token,
      PATH: `${installed}/node_modules/.bin:${Deno.env.get("PATH")}`,
      NO_COLOR: "1",
    }, "scaling.md");

    const counted = "10 entries, counted 10, 3 seals, 1 keys; counts that are wrong: 0";
    assertEquals(outputOf("compare.sql"), `${counted}\n${counted}`);
    const [ours, theirs, status, detail] = outputOf("sha256sum").split("\n");
    assertEquals(ours, theirs);
    assertEquals(status, "400");
    assertMatch(detail ?? "", /after=beginning/);
    assertMatch(outputOf("AUDIT_LOG_URL="), /All is as it was sealed\. The chain has the seal/);

    // At the new place: the same page, and no key that was revoked.
    assertEquals((await ask(other, moved.token, `?${ALL}`)).body, before.body);
    assertEquals((await ask(other, revoked, `?${ALL}`)).status, 401);
    // The feed has all there is once, then what is new once.
    const all = await ask(other, moved.token, `?${ALL}&after=beginning`);
    assertEquals([all.body.items.length, all.body.total], [10, 10]);
    await write(to, moved.id, "2026-11-18", 1);
    const then = await ask(other, moved.token, `?${ALL}&after=${all.after}`);
    assertEquals(then.body.items.length, 1);
    // The chain goes on: what came late is declared, once, and nothing is altered.
    await upkeep(to);
    const late = ["4 2026-11-18 4 1 0", "5 2026-11-19 2 1 0"];
    assertEquals(await newSeals(moved), late);
    const [health] = await to`select audit_log_private.health() ->> 'miscounted_days' as days`;
    assertEquals(health?.["days"], "[]");

    // The others: there is no row of theirs, and a cursor of the new place still works.
    await write(to, resident.id, "2026-11-20", 1);
    const next = await ask(other, resident.token, `?${ALL}&after=${follower.after}`);
    assertEquals([next.status, next.body.items.length], [200, 1]);
    assertEquals((await ask(other, stays.token, `?${ALL}`)).status, 401);

    // It also goes on after the new place was restored, and all of it was compared.
    await to`select audit_log_private.adopt_restored_log()`;
    await write(to, moved.id, "2026-11-20", 1);
    await to`update audit_log_private.sealed_days set checked_at = checked_at - interval '31 days'`;
    await upkeep(to);
    assertEquals(await newSeals(moved), [...late, "6 2026-11-20 5 1 0"]);
  });
});
