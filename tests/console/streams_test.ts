// Needs a stack and a browser. Slow.

import { assert, assertEquals, assertMatch } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { open, purposeOf, readKeys } from "../../supabase/functions/audit-log-streams/sealed.ts";
import { newPrivateKey } from "../helpers/certificate.ts";
import { daysAgo, openScreen, type Page, sql, today, valueOf } from "../helpers/browser.ts";
import { writeEntries } from "../helpers/browser.ts";

const KEYS = await readKeys(await newPrivateKey());
const DELIVERED = { decision: "delivered", status: 200, ms: 84, bytes: 310 };
const FORBIDDEN = {
  decision: "wait",
  status: 403,
  ms: 31,
  bytes: 310,
  error: 'status 403: {"text":"Invalid token","code":4}',
};

const HOUR_S = 3_600;

/** A time so many seconds ago. */
function before(seconds: number): Date {
  return new Date(Date.now() - seconds * 1000);
}

/** Answers for the function that delivers: with its public key. */
function deploy(page: Page) {
  return page.route(
    "**/functions/v1/audit-log-streams",
    (route) => route.fulfill({ json: { public_key: KEYS.publicKey } }),
  );
}

function openStreams(prepare?: (created: { id: string }) => unknown, screen = "streams") {
  return openScreen(screen, prepare, { prepare: deploy });
}

interface Stored {
  sealed: string;
  sealed_before: string | null;
  hint: string;
  actions: string[] | null;
  cursor: unknown;
  destination: { kind: string; url: string };
}

async function storedStream(organizationId: string): Promise<Stored> {
  const [stream] = await sql<Stored[]>`
    select * from audit_log_private.streams where organization_id = ${organizationId}`;
  return stream!;
}

/** What the function finds in the sealed secret of an organization's one stream. */
async function opened(organizationId: string): Promise<string> {
  const { sealed, destination } = await storedStream(organizationId);
  return await open(sealed, KEYS, purposeOf(organizationId, destination));
}

/** Makes a stream without the console. */
async function newStream(organizationId: string, name = "Splunk EU", columns: object = {}) {
  const stream = {
    organization_id: organizationId,
    name,
    destination: { kind: "splunk", url: "https://splunk.example.com:8088" },
    sealed: "k.p.i.s",
    hint: "…x9Qa",
    includes_seals: true,
    test_asked_at: null,
    ...columns,
  };
  await sql`insert into audit_log_private.streams ${sql(stream)}`;
}

/** Does what the function does for a stream: takes a batch, and tells what became of it. */
async function send(of: { id: string; name: string }, outcome: object): Promise<void> {
  await sql`
    update audit_log_private.streams set due_at = clock_timestamp()
      + case when (organization_id, name) = (${of.id}, ${of.name}) then interval '0' else interval '1 day' end`;
  const text: string = await valueOf(
    sql`select audit_log.take_batch('https://project.example.com', '{"seconds": 40, "bytes": 900000}')::text`,
  );
  const { batch: { stream_id, lease } } = JSON.parse(text);
  const ending = JSON.stringify({ rejected: [], ...outcome });
  await sql`
    select audit_log.settle_batch(${of.id}, ${stream_id}, ${lease}, ${ending}::text::jsonb,
      '{"seconds": 40, "bytes": 900000}', false)`;
}

describe("creating a stream, accessible in each state", () => {
  it("makes a webhook's secret, shows it once, seals it for the function, and shows when the test has arrived. A new one replaces it, while the old one signs, too, for a day", async () => {
    const { view, page, id } = await openStreams();
    await view.shows("No destinations yet");
    await view.assertAccessible("streams-empty");
    await view.press("Add the first destination");
    await page.setViewportSize({ width: 375, height: 812 });
    const address = page.getByLabel("Address", { exact: true });
    assert((await address.boundingBox())!.y < 780);
    await page.getByText("Advanced").click();
    await page.getByLabel("Name").fill("SIEM");
    await address.fill("siem.example.com/in");
    const shown = page.getByRole("group", { name: "Signing secret" });
    const secret = await shown.innerText();
    assertMatch(secret, /^whsec_[A-Za-z0-9+/]{32}$/);
    await view.assertAccessible("stream-new");
    await page.getByLabel(/^I have stored the secret/).check();
    await view.press("Send a test", "A test entry is on its way.");
    assertEquals(await opened(id), secret);
    const { hint, destination, sealed } = await storedStream(id);
    assertEquals([hint, destination.url], [`…${secret.slice(-4)}`, "https://siem.example.com/in"]);
    assert(!(await page.content()).includes(secret));
    await send({ id, name: "SIEM" }, DELIVERED);
    await view.shows("Address found, TLS works, 200 in 84 ms. Your receiver has an entry");
    assertEquals(await view.copy("search"), "audit_log_test");
    await view.assertAccessible("stream");
    await view.press("Change");
    await view.press("Replace", "For a day, the old secret signs, too.");
    const next = await shown.innerText();
    await page.getByLabel(/^I have stored the secret/).check();
    await view.press("Save", "the old one signs, too, until");
    assertEquals([await opened(id), (await storedStream(id)).sealed_before], [next, sealed]);
  });

  it("asks for each kind's fields, sends the log from the beginning and chosen actions only, and says what to do when the test fails", async () => {
    const { view, page, id } = await openStreams(
      ({ id }) => writeEntries(id, [{}, {}, {}]),
      "streams/new",
    );
    await page.getByRole("radio", { name: "Slack" }).check();
    const all = page.getByRole("checkbox", { name: "All actions" });
    assertEquals(await all.isChecked(), false);
    await all.check();
    await page.getByLabel("Name").fill("Alarm");
    assert(await page.getByRole("link", { name: "Cancel" }).getAttribute("aria-current") === null);
    await page.getByLabel("Webhook address").fill("https://evil.example.com/T1/B1/secret");
    await view.press("Send a test", "Slack: the webhook address begins with");
    await page.getByRole("radio", { name: "Elasticsearch" }).check();
    await page.getByLabel("Address of the index").fill("https://a.example.com:9200/");
    const meant = "the address has no index: write https://a.example.com:9200/audit-log";
    await view.press("Send a test", meant);
    await page.getByRole("radio", { name: "Splunk" }).check();
    assertEquals(await page.getByText(meant).count(), 0);
    await page.getByLabel("Address of the HTTP Event Collector").fill("https://10.0.0.1:88");
    await page.getByLabel("Token").fill("0b9c5a6e-4d5c-4a57-9d3b-d3f0c0a1x9Qa");
    await page.getByText("Advanced").click();
    await view.choose("Start", "From date");
    await page.getByLabel("Date (UTC)").fill(today());
    await page.getByRole("radio", { name: "Datadog" }).check();
    await view.shows("Datadog drops entries that are older than 18 hours.");
    await page.getByRole("radio", { name: "Splunk" }).check();
    await view.choose("Start", "From the beginning of the log");
    await all.uncheck();
    await view.shows("Choose an action first, under Advanced.");
    assert(await view.button("Send a test").isDisabled());
    await page.getByRole("checkbox", { name: "Message created" }).check();
    await view.assertAccessible("stream-new-splunk");
    await view.press("Send a test", "The url of a destination has no port but 443");
    await page.getByLabel("Address of the HTTP Event Collector").fill("https://a.example.com:8088");
    await view.press("Send a test", "A test entry is on its way.");
    assertEquals(await opened(id), "0b9c5a6e-4d5c-4a57-9d3b-d3f0c0a1x9Qa");
    const { actions, cursor } = await storedStream(id);
    assertEquals([actions, cursor], [["message_created"], null]);
    await send({ id, name: "Alarm" }, FORBIDDEN);
    await view.shows("Nothing is sent before a test entry is accepted.");
    await page.getByText("Check the token: it is wrong, disabled, or may not").first().waitFor();
    await view.shows(`Address found, TLS works, 403 in 31 ms: ${FORBIDDEN.error}`);
    await view.assertAccessible("stream-test-failed");
  });

  it("takes four presses and two fields: Splunk as it is. It cannot happen while the function that delivers does not answer, and says whom to ask for what", async () => {
    const { view, page } = await openScreen("log");
    await view.goTo("Destinations");
    await view.press("Add the first destination");
    assertEquals(await view.presses(), 2);
    await view.shows("Ask the people who run this service to set up destinations");
    await view.shows("npx supabase functions deploy audit-log-streams");
    assert(await view.button("Send a test").isDisabled());
    await view.assertAccessible("stream-not-deployed");
    await deploy(page);
    await page.reload();
    await page.getByText("Splunk", { exact: true }).click();
    await page.getByLabel("Address of the HTTP Event Collector").fill("splunk.example.com:8088");
    await page.getByLabel("Token").fill("0b9c5a6e-4d5c-4a57-9d3b-d3f0c0a1x9Qa");
    await view.press("Send a test", "A test entry is on its way.");
    await view.shows("The test entry is sent within a minute.");
    assertEquals(await view.presses(), 2);
  });

  it("needs no mouse, only an address and a secret, which never comes back, stays with another path, and is asked for again for another host", async () => {
    const { view, page, id } = await openStreams();
    const answers: Promise<string>[] = [];
    page.on("response", (response) => {
      // The last may come when the page is closed already.
      if (response.url().includes("/rpc/")) answers.push(response.text().catch(() => ""));
    });
    await view.tabTo(/^Add the first destination$/);
    await view.key("Enter");
    await view.tabTo(/^Webhook/);
    await view.key("ArrowDown");
    await view.tabTo(/^Address of the HTTP Event Collector/);
    await page.keyboard.type("splunk.example.com:8088");
    await view.tabTo(/^Token/);
    await page.keyboard.type("0b9c5a6e-4d5c-4a57-9d3b-d3f0c0a1x9Qa");
    await view.tabTo(/^Send a test$/);
    await view.key("Enter");
    await view.shows("A test entry is on its way.");
    await page.getByRole("heading", { name: "Splunk", level: 1 }).waitFor();
    await send({ id, name: "Splunk" }, DELIVERED);
    await view.shows("The test has arrived");
    const { sealed } = await storedStream(id);
    await view.press("Change", "ends in …x9Qa");
    const address = page.getByLabel("Address of the HTTP Event Collector");
    // On a phone, too.
    await page.setViewportSize({ width: 375, height: 700 });
    assert((await address.boundingBox())!.y < 500);
    await address.fill("https://splunk.example.com:8088/path");
    await view.press("Save", "A test entry is on its way.");
    assertEquals((await storedStream(id)).sealed, sealed);
    assertEquals(await page.getByText("The test has arrived").count(), 0);
    await view.press("Change", "ends in …x9Qa");
    await address.fill("https://splunk.example.net");
    await view.shows("This is another host. The stored secret is not sent there");
    await view.assertAccessible("stream-other-host");
    await page.getByLabel("Token").fill("the-token-of-the-other-host");
    await view.press("Save", "A test entry is on its way.");
    assertEquals(await opened(id), "the-token-of-the-other-host");
    assert(!(await Promise.all(answers)).join().includes(sealed));
  });
});

const FAILING = {
  failures: 9,
  failing_since: before(2 * HOUR_S),
  delivered_at: before(2 * HOUR_S),
  caught_up_at: before(2 * HOUR_S),
  last_error: FORBIDDEN.error,
  last_status: 403,
  due_at: before(-1800),
};
const CAUGHT_UP = {
  cursor: "(1:1:,,,,)",
  batch_has_more: false,
  caught_up_at: before(1),
  delivered_at: before(1),
  entries: 1204,
};

/** What makes each state, in the order of the list. A copy is another database: its answer is changed on the way. */
const STATES: Record<string, object> = {
  "Test failed": { ...FAILING, test_asked_at: before(60), delivered_at: null },
  "Failing": FAILING,
  "Waiting for the sender": { ...CAUGHT_UP, due_at: before(600) },
  "Stopped as a copy": CAUGHT_UP,
  "Testing": { test_asked_at: before(1) },
  "Catching up": {},
  "Up to date": CAUGHT_UP,
  "Retrying": { ...FAILING, failures: 1, failing_since: before(20), last_status: null },
  "Paused": {
    ...CAUGHT_UP,
    delivered_at: before(2 * HOUR_S),
    paused_at: before(HOUR_S),
    paused_by: "ada@example.com",
  },
};

/** Has the page take a stream for one in a copy of the database. */
async function deployCopy(page: Page, name: string) {
  await deploy(page);
  await page.route("**/rpc/*_stream*", async (route) => {
    const response = await route.fetch();
    const ofStream = new RegExp(`("name" : "${name}".*?"state" : )"\\w+"`, "gs");
    await route.fulfill({
      response,
      body: (await response.text()).replace(ofStream, '$1"restored"'),
    });
  });
}

describe("a stream in any state", () => {
  it("is in the list, which has those in trouble first, and says of itself what is so, accessibly", async () => {
    const { view, page } = await openScreen("streams", async ({ id }) => {
      await writeEntries(id, [{}]);
      for (const [name, columns] of Object.entries(STATES)) await newStream(id, name, columns);
    }, { prepare: (page) => deployCopy(page, "Stopped as a copy") });
    await page.getByRole("rowheader").nth(8).waitFor();
    const rows = await page.getByRole("row").allInnerTexts();
    const states = Object.keys(STATES);
    assertEquals(rows.slice(1).map((row) => states.find((name) => row.includes(name))), states);
    for (const [n, row] of rows.slice(1).entries()) {
      assertEquals(row.split(states[n]!).length, 3, row);
    }
    assertMatch(rows.at(-1)!, /Paused\s+for 1 hour\s+2 hours ago$/);
    await view.shows("An organization has at most five destinations.");
    assertEquals(await view.button("Add destination").count(), 0);
    await view.assertAccessible("streams");
    for (const name of states) {
      await page.getByRole("rowheader").getByRole("link", { name, exact: true }).click();
      await page.getByRole("heading", { name, level: 1 }).waitFor();
      assertEquals(await page.getByRole("status").first().innerText(), name);
      await view.assertAccessible(`stream-${name.toLowerCase().replaceAll(" ", "-")}`);
      const all = page.getByRole("link", { name: "All destinations" });
      assertEquals(await all.getAttribute("aria-current"), null);
      await all.click();
    }
  });

  it("opens an attempt, with its answer and what to do about it, and lists the entries that its destination rejected", async () => {
    const { view, page } = await openStreams(async ({ id }) => {
      await writeEntries(id, [{ created_at: "2026-03-01T12:00:00Z" }]);
      await newStream(id, "Splunk EU", FAILING);
      await sql`
        insert into audit_log_private.stream_attempts
        select organization_id, id, n, '2026-11-20T08:00:00Z'::timestamptz - n * interval '1 second', 'entries', 1000,
          412345, 31, case when n = 0 then 403 end, case when n = 0 then ${FORBIDDEN.error} else 'no address was found' end
        from audit_log_private.streams, generate_series(0, 24) as n where organization_id = ${id}`;
      await sql`
        insert into audit_log_private.rejected_entries
        select e.organization_id, s.id, e.created_at, e.id, now(), 'mapper_parsing_exception'
        from audit_log_private.streams s join audit_log.audit_entries e using (organization_id)
        where organization_id = ${id}`;
    });
    await page.getByRole("link", { name: "Splunk EU" }).last().click();
    const attempts = page.locator("summary");
    await attempts.first().waitFor();
    assertEquals(await attempts.count(), 20);
    await view.tabTo(/^2026-11-20 08:00:00/);
    await view.key("Enter");
    await view.shows("412,345 bytes. Address found, TLS works, 403 in 31 ms.");
    await page.locator("details").getByText("Check the token").waitFor();
    const answer = page.getByRole("group", { name: "Answer" });
    assertEquals(await answer.innerText(), FORBIDDEN.error);
    await view.shows("mapper_parsing_exception");
    await view.assertAccessible("stream-attempt");
    await attempts.nth(1).click();
    await page.getByText("No answer in 31 ms").first().waitFor();
    await page.getByRole("link", { name: "2026-03-01 12:00:00" }).click();
    await view.entry.waitFor();
  });
});

describe("streams in trouble", () => {
  it("are a dot in the navigation of every screen until they work again, and can be tried at once", async () => {
    const { view, page, id } = await openScreen("log", async ({ id }) => {
      await writeEntries(id, [{ created_at: new Date().toISOString() }]);
      await newStream(id, "Splunk EU", FAILING);
    }, { prepare: deploy });
    const dot = page.getByRole("link", { name: "Destinations 1 needs attention" });
    await dot.waitFor();
    await view.assertAccessible("log-stream-failing");
    await view.goTo("Destinations");
    await page.getByRole("link", { name: "Splunk EU" }).click();
    await view.shows(/It has delivered nothing for 2 hours. Next try in \d+ minutes./);
    await view.press("Retry now", "It is tried again within a minute.");
    await view.shows("The next try is due.");
    await send({ id, name: "Splunk EU" }, DELIVERED);
    await view.shows(/Every entry is delivered/);
    await view.goTo("Activity");
    await dot.waitFor({ state: "detached" });
  });

  it("are also those whose test failed, whose destination wants no more, and whose entries retention deletes soon or already", async () => {
    const paused = { paused_at: before(60), paused_by: "ada" };
    const cases = [
      [{ ...FAILING, test_asked_at: before(60) }, 1, "Nothing is sent before a test entry"],
      [{ ...paused, paused_by: null }, 1, "Stopped 1 minute ago."],
      // Before noon (UTC), rounded up.
      [paused, 5, /Retention begins to delete them in [56] days, on /],
      [paused, 10, "Retention begins to delete them in "],
      [paused, 12, "retention deletes the oldest of them every night."],
    ] as const;
    for (const [columns, oldest_days, text] of cases) {
      const { view, page } = await openScreen("log", async ({ id }) => {
        await sql`update audit_log.organizations set keep_days = 10 where id = ${id}`;
        await writeEntries(id, [{ created_at: before(oldest_days * 24 * HOUR_S).toISOString() }]);
        await newStream(id, "Splunk EU", columns);
      });
      await page.getByRole("link", { name: "Destinations 1 needs attention" }).click();
      await page.getByRole("link", { name: "Splunk EU" }).click();
      await view.shows(text);
    }
  });

  it("of an owner who left say so until somebody else changes them, and becomes their owner. They are stopped by a pause, which says what it may cost, go on where they were, and are gone when deleted", async () => {
    const { view, page, id, admin } = await openStreams(async ({ id }) => {
      await sql`update audit_log.organizations set keep_days = 90 where id = ${id}`;
      await newStream(id, "Splunk EU", { ...CAUGHT_UP, owner_left_at: new Date("2026-11-20") });
    });
    await view.shows("Owner left");
    await page.getByRole("link", { name: "Splunk EU" }).click();
    await view.shows(
      "The owner of this destination left on 2026-11-20. The administrator who changes",
    );
    await view.assertAccessible("stream-left");
    await view.press("Change", "Another address or secret is tested first.");
    await view.press("Save");
    await page.getByRole("definition").getByText(admin.email, { exact: true }).waitFor();
    await page.getByText("The owner of this destination left").waitFor({ state: "detached" });
    await view.pressInMenu(/^Actions for/, "Pause");
    await view.shows("Paused. Entries wait in the log.");
    await view.shows(/Stopped .* by /);
    assertEquals(await view.focused(), "Actions for Splunk EU");
    const days = [daysAgo(0), daysAgo(0), daysAgo(40)];
    await writeEntries(id, days.map((day) => ({ created_at: `${day}T23:59:59Z` })));
    await view.shows(
      `Nothing is lost: entries wait in the log. Retention begins to delete them on ${
        daysAgo(-91)
      }.`,
    );
    await view.assertAccessible("stream-paused-notice");
    await view.press("Resume …", /^Resume$/);
    await view.choose("Start", "From the beginning of the log");
    await view.shows("You can send earlier entries once a day.");
    await view.assertAccessible("stream-resume");
    await view.close();
    assertEquals(await view.focused(), "Resume …");
    await view.press("Resume …", /^Resume$/);
    await view.press(/^Resume$/, "Every entry is delivered");
    // Once the dialog is gone, and the button that opened it.
    await view.until("document.activeElement.tagName === 'MAIN'");
    await view.pressInMenu(/^Actions for/, "Delete …");
    await view.assertAccessible("stream-delete");
    await view.press("Delete destination", "No destinations yet");
    await view.shows("is deleted.");
    assertEquals(await storedStream(id), undefined);
  });
});
