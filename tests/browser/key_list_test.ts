import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { addMember, age, createApiKey, get, revokeApiKey, signUp, sql } from "../helpers.ts";
import {
  choose,
  NO_DATABASE,
  openConsole,
  openKeys,
  openMenu,
  openScreen,
  overflow,
  press,
  recordCalls,
  row,
  setVisibility,
  shows,
} from "./browser.ts";

describe("the list of keys", () => {
  it("is searched, filtered, sorted and paged, all of it in the address", async () => {
    const { page, admin, organization } = await openKeys(({ admin, organization }) =>
      sql.begin(async (sql) => {
        const claims = JSON.stringify({ sub: admin.id, email: admin.email });
        await sql`select set_config('request.jwt.claims', ${claims}, true)`;
        await sql`
          select audit_log_private.insert_api_key(${organization.id}, 'test key ' || to_char(n, 'FM00'))
          from generate_series(1, 59) as n`;
      })
    );
    await shows(page, "60 keys, page 1 of 3");
    await press(page, "Name");
    await page.locator("[aria-sort=ascending]").getByText("Name").waitFor();
    assertStringIncludes(await page.getByRole("rowheader").nth(1).innerText(), "test key 01");
    await press(page, /^Page 3$/);
    await row(page, "test key 59").waitFor();
    const search = page.getByRole("searchbox", { name: "Search keys" });
    await search.pressSequentially("4");
    await search.press("Home");
    await search.pressSequentially("KEY ");
    assertEquals(await search.inputValue(), "KEY 4");
    await shows(page, "10 keys");
    const another = await openConsole(admin, new URL(page.url()).hash);
    await shows(another.page, "10 keys");
    await revokeApiKey(admin, { organization_id: organization.id, id: organization.apiKeyId });
    await search.fill("");
    await choose(page, "State", "Revoked");
    await page.reload();
    await page.getByText("1 key", { exact: true }).waitFor();
    await row(page, "Revoked").waitFor();
  });

  it("tells who revoked each, how often it is used by day (UTC), and what it used in the last minute", async () => {
    const { page } = await openKeys(async ({ admin, organization: { id, token, apiKeyId } }) => {
      const colleague = await signUp();
      await addMember(id, colleague, "admin");
      await revokeApiKey(colleague, await createApiKey(admin, id, "test of a colleague"));
      // On the day before where the viewer is.
      await sql`
        update audit_log_private.api_keys
        set created_at = '2026-01-02T03:00:00Z', revoked_at = '2026-02-02T03:00:00Z'
        where organization_id = ${id} and revoked_at is not null`;
      for (let i = 0; i < 5; i++) await get(token);
      await age(sql, apiKeyId, "30 seconds");
    });
    const revoked = row(page, "test of a colleague");
    await revoked.getByText(/^2026-02-02 by .*@example\.com/).waitFor();
    await revoked.getByText("2026-01-02").waitFor();
    const used = row(page, "5 requests, 5 today");
    await used.getByRole("img", { name: /^Requests by day: (0 ){29}5$/ }).waitFor();
    await used.getByText("5 of 60 in the last minute").waitFor();
    // The latest first; those never used are the oldest.
    await press(page, "Last used");
    await press(page, "Last used");
    await page.locator("[aria-sort=descending]").waitFor();
    assertStringIncludes(await page.getByRole("row").nth(1).innerText(), "5 requests");
  });

  it("does not call a key unused when its use cannot be read", async () => {
    const { page } = await openScreen("keys", ({ organization: { token } }) => get(token), {
      prepare: (page) => page.route("**/rpc/api_key_usage", (route) => route.fulfill(NO_DATABASE)),
    });
    await shows(page, "The database does not answer.");
    assertEquals(await row(page, "test").getByText("none").count(), 0);
    await openMenu(page, "test", "Revoke …");
    await shows(page, /^Last used (now|.*ago)\. Whatever uses it stops\.$/);
  });

  it("refreshes by itself, but not while its tab is hidden", async () => {
    const { page, organization: { token } } = await openScreen("keys", undefined, {
      prepare: (page) => page.clock.install(),
    });
    await row(page, "test").waitFor();
    await get(token);
    const calls = recordCalls(page);
    await setVisibility(page, "hidden");
    await page.clock.runFor("00:30");
    assertEquals(calls, []);
    await setVisibility(page, "visible");
    await row(page, "1 of 60 in the last minute").waitFor();
    await get(token);
    await page.clock.fastForward("00:10");
    await row(page, "2 of 60 in the last minute").waitFor();
    await page.clock.fastForward("05:00");
    await row(page, "test").getByText(/^[56] minutes ago/).waitFor();
    // Also when the list is as before.
    await page.clock.fastForward("30:00");
    await row(page, "test").getByText(/^3[56] minutes ago/).waitFor();
  });

  it("of 1,200 is not read again every ten seconds", async () => {
    const { page } = await openScreen("keys", undefined, {
      prepare: async (page) => {
        await page.route("**/rpc/list_api_keys", async (route) => {
          const [key] = await (await route.fetch()).json();
          const json = Array.from({ length: 1200 }, () => ({ ...key, id: crypto.randomUUID() }));
          await route.fulfill({ json });
        });
        await page.clock.install();
      },
    });
    await shows(page, "1,200 keys, page 1 of 48");
    const calls = recordCalls(page);
    await page.clock.runFor("01:50");
    assertEquals(calls.filter((name) => name === "list_api_keys"), []);
    await page.clock.runFor("00:15");
    assertEquals(calls.filter((name) => name === "list_api_keys").length, 1);
    await page.unrouteAll({ behavior: "wait" });
  });

  it("has rows of one height, whatever the names, which it shows as they are", async () => {
    const names = [
      "A long name ".repeat(8).trim(),
      "W".repeat(100),
      "<img src=x onerror=alert(1)>",
      "🔑".repeat(100),
      "אבג".repeat(30),
    ];
    const { page, complaints } = await openKeys(async ({ admin, organization }) => {
      for (const name of names) await createApiKey(admin, organization.id, name);
    });
    for (const width of [320, 1440, 1280]) {
      await page.setViewportSize({ width, height: 900 });
      for (const name of names) await row(page, name).waitFor();
      assertEquals(await overflow(page), 0);
    }
    const heights = await page.getByRole("row").evaluateAll((rows) =>
      rows.slice(1).map((row) => (row as unknown as { offsetHeight: number }).offsetHeight)
    );
    assert(Math.max(...heights) <= 55, `rows of ${heights} pixels`);
    assertEquals(complaints, []);
  });
});
