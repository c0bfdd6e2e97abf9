// Needs a stack and a browser. Slow.

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { it } from "@std/testing/bdd";
import { addMember, age, createApiKey, get, getProblem, listApiKeys } from "../helpers/browser.ts";
import { newAdmin, openConsole, openScreen, quotaOf, revokeApiKey } from "../helpers/browser.ts";
import { signUp, sql, today, writeEntries } from "../helpers/browser.ts";

const quota = await quotaOf(sql);

it("the list of keys, accessible in each state, shows live keys, 50 a page, nine on a phone at once, or all. It can be searched, and the address keeps what is sought", async () => {
  const { view, page, admin, id, apiKeyId } = await openScreen("keys", ({ id }) =>
    sql`
      select audit_log_private.insert_api_key(${id}, 'test key ' || to_char(n, 'FM00'))
      from generate_series(1, 59) as n`);
  await view.shows("60 keys");
  const rows = page.getByRole("rowheader");
  assertEquals(await rows.count(), 50);
  await page.setViewportSize({ width: 375, height: 812 });
  const boxes = await Promise.all(
    (await page.getByRole("row").all()).map((row) => row.boundingBox()),
  );
  const whole = boxes.filter((box) => box && box.height > 0 && box.y + box.height <= 812);
  assert(whole.length >= 9, `${whole.length} keys`);
  const first = await rows.first().innerText();
  await view.button("Page 2").click();
  await view.until("document.querySelectorAll('tbody tr').length === 10");
  assert(first !== await rows.first().innerText());
  await view.assertAccessible("keys-page");
  const search = page.getByRole("searchbox", { name: "Search keys" });
  await search.pressSequentially("4");
  await search.press("Home");
  await search.pressSequentially("KEY ");
  assertEquals(await search.inputValue(), "KEY 4");
  await view.shows("10 keys");
  const another = await openConsole(admin, new URL(page.url()).hash);
  await another.shows("10 keys");
  await revokeApiKey(admin, { organization_id: id, id: apiKeyId });
  await search.fill("");
  await view.shows("59 keys");
  await search.fill("revoked");
  await page.getByRole("heading", { name: "No such key" }).waitFor();
  await page.getByText("All", { exact: true }).click();
  await page.getByText("1 key", { exact: true }).waitFor();
  await page.reload();
  await view.row("Revoked").waitFor();
  await search.fill("nothing like this");
  await page.getByRole("heading", { name: "No such key" }).waitFor();
  await view.assertAccessible("keys-none");
});

it("the list of keys, accessible in each state, shows every name as it is in rows of one height, who revoked a key, its requests in the last minute, and that it may miss entries if it reads by date", async () => {
  const names = [
    "A long name ".repeat(8).trim(),
    "W".repeat(100),
    "<img src=x onerror=alert(1)>",
    "🔑".repeat(100),
    "אבג".repeat(30),
  ];
  const { view, page, apiKeyId } = await openScreen("keys", async (created) => {
    const { admin, id, token, apiKeyId } = created;
    for (const name of names) await createApiKey(admin, id, name);
    const colleague = await signUp();
    await addMember(id, colleague, "admin");
    await revokeApiKey(colleague, await createApiKey(admin, id, "of a colleague"));
    // In the viewer's time zone, this is the day before.
    await sql`
      update audit_log_private.api_keys
      set created_at = '2026-01-02T03:00:00Z', revoked_at = '2026-02-02T03:00:00Z'
      where organization_id = ${id} and revoked_at is not null`;
    for (let i = 0; i < 5; i++) await get(token);
    await age(sql, apiKeyId, "30 seconds");
  });
  assertEquals(await view.row("of a colleague").count(), 0);
  await page.getByText("All", { exact: true }).click();
  const revoked = view.row("of a colleague");
  await revoked.getByText(/^2026-02-02 by .*@example\.com/).waitFor();
  await revoked.getByText("2026-01-02").waitFor();
  const used = view.row(`5 of ${quota} requests a minute`);
  await used.waitFor();
  for (const name of names) await view.row(name).waitFor();
  await view.assertAccessible("keys");
  const height = await view.highestRow();
  assert(height <= 55, `a row of ${height} pixels`);
  await view.assertAccessible("keys-menu", async () => {
    await used.getByRole("button", { name: /^Actions/ }).click();
    await page.getByRole("menuitem", { name: "Rotate …" }).waitFor();
  });
  await view.key("Escape");
  await age(sql, apiKeyId, "60 seconds");
  await view.row("May miss late entries").waitFor();
});

it("the list of keys, accessible in each state, begins with the keys that need somebody, also with one that has expired before its successor was used. Whoever rotates a key whose owner left is told that they become the owner of the new key", async () => {
  const colleague = await signUp();
  const { view, page, admin, id, apiKeyId } = await openScreen("keys", async (created) => {
    const { admin, id, token, apiKeyId } = created;
    await addMember(id, colleague, "admin");
    await get(token);
    await admin.client.rpc("rotate_api_key", { organization_id: id, api_key_id: apiKeyId })
      .throwOnError();
    for (const name of ["expiring", "yearly", "fine"]) await createApiKey(admin, id, name);
    await createApiKey(colleague, id, "of a leaver");
    await sql`select audit_log.person_left(${id}, ${colleague.id})`;
    await sql`
      update audit_log_private.api_keys
      set expires_at = case name
          when 'test' then expires_at - interval '19 hours'
          when 'expiring' then now() + interval '5 days' when 'yearly' then '2100-01-02'
          else expires_at
        end
      where organization_id = ${id}`;
  });
  await view.shows("6 keys");
  const rows = (await page.getByRole("rowgroup").last().getByRole("row").allInnerTexts())
    .map((row) => row.replaceAll(/\s+/g, " "));
  const expected = [
    /^test .* New key unused until 20\S+; give its application the new key pck_\S+/,
    /^expiring .* Expires in 5 days until 20\S+; rotate it/,
    /^of a leaver .* Owner left never expires; rotate it: its owner may have the token/,
    /^fine .* Active never expires/,
    /^yearly .* Active until 2100-01-02/,
    /^test .* Active never expires/,
  ];
  for (const [n, pattern] of expected.entries()) assertMatch(rows[n] ?? "", pattern);
  await view.assertAccessible("keys-needing");
  await page.getByRole("searchbox").fill("owner left");
  await page.getByText("1 key", { exact: true }).waitFor();
  await page.getByRole("searchbox").fill("");

  await sql`
    update audit_log_private.api_keys set expires_at = clock_timestamp() where id = ${apiKeyId}`;
  await view.row("New key unused").getByText(/^ended 20/).waitFor();
  const [successor] = (await listApiKeys(admin, id)).filter(({ name }) => name === "test");
  await sql`
    update audit_log_private.rate_limits set last_at = clock_timestamp()
    where api_key_id = ${successor?.id ?? ""}`;
  await view.row("New key unused").waitFor({ state: "detached" });

  const label = view.row("of a leaver").getByText("Owner left", { exact: true });
  await page.setViewportSize({ width: 320, height: 800 });
  assertEquals(await label.evaluate((label) => label.getClientRects().length), 1, "lines");
  await view.openMenu("of a leaver", "Rotate …");
  await view.shows(/^The owner of the old key left on 20\d\d-\d\d-\d\d, and may still have/);
  await view.shows("You become the owner of the new key.");
  await view.assertAccessible("key-rotate-left");
  await view.press("Rotate key", "The token is shown only once.");
  const owners = await sql`
    select created_by_email, owner_left_at is null as is_unmarked from audit_log_private.api_keys
    where organization_id = ${id} and name = 'of a leaver' order by created_at`;
  assertEquals(owners.map((row) => Object.values(row)), [
    [colleague.email, false],
    [admin.email, true],
  ]);
});

it("the list of keys, accessible in each state, refreshes by itself, but not while its tab is hidden", async () => {
  const { view, page, token } = await openScreen("keys", undefined, {
    prepare: (page) => page.clock.install(),
  });
  await view.row("test").waitFor();
  await get(token);
  const calls = view.recordCalls();
  await view.setVisibility("hidden");
  await page.clock.runFor("00:30");
  assertEquals(calls, []);
  await view.setVisibility("visible");
  await view.row(`1 of ${quota} requests a minute`).waitFor();
  await get(token);
  await page.clock.fastForward("00:10");
  await view.row(`2 of ${quota} requests a minute`).waitFor();
  await page.clock.fastForward("05:00");
  await view.row("test").getByText(/^[56] minutes ago/).waitFor();
  // Also when the answer has not changed.
  await page.clock.fastForward("30:00");
  await view.row("test").getByText(/^3[56] minutes ago/).waitFor();
});

it("usage, accessible in each state, shows what keys and administrators have read, and how many requests were refused", async () => {
  const { admin, id, token } = await newAdmin();
  await writeEntries(id, [1, 2, 3].map((n) => ({ created_at: `${today()}T00:00:0${n}Z` })));
  for (let n = 0; n < 2; n++) await get(token, `start=${today()}&end=${today()}`);
  await getProblem(400, token, "start=nonsense");
  const view = await openConsole(admin);
  await view.shows("1–3 of 3 entries");
  await view.goTo("Readers");
  await view.shows("2 readers");
  const cells = await view.row("test").getByRole("cell").allInnerTexts();
  assertEquals(cells.slice(1), ["3\n1 invalid", "6"]);
  assertStringIncludes(await view.row("Person").innerText(), admin.email);
  await view.assertAccessible("usage");
  await view.page.setViewportSize({ width: 375, height: 812 });
  const height = (await view.row("test").boundingBox())?.height ?? NaN;
  assert(height <= 100, `a reader of ${height} pixels on a phone`);
});
