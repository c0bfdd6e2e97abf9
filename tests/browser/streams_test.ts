import { assert, assertEquals, assertMatch } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { open, purposeOf, readKeys } from "../../supabase/functions/audit-log-streams/sealed.ts";
import { newPrivateKey } from "../certificate.ts";
import { sql, valueOf, writeEntries } from "../helpers.ts";
import { openScreen, type Page, type View } from "./browser.ts";

const KEYS = await readKeys(await newPrivateKey());
const DELIVERED = { decision: "delivered", status: 200, ms: 84, bytes: 310 };
const FORBIDDEN = {
  decision: "wait",
  status: 403,
  ms: 31,
  bytes: 310,
  error: 'status 403: {"text":"Invalid token","code":4}',
};

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
  place: unknown;
  destination: { kind: string; url: string };
}

async function storedStream(organizationId: string): Promise<Stored> {
  const [stream] = await sql<Stored[]>`
    select * from audit_log_private.streams
    where organization_id = ${organizationId}`;
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
    sql`select audit_log.take_batch('https://project.example.com', 40, 900000, false)`,
  );
  const { stream_id, lease } = JSON.parse(text.split("\n", 1)[0]!);
  await sql`
    select audit_log.settle_batch(
      ${of.id}, ${stream_id}, ${lease}, ${
    JSON.stringify(outcome)
  }::text::jsonb, 40, 900000, false)`;
}

async function openMenu(view: View, item: string): Promise<void> {
  await view.press(/^Actions for/);
  await view.page.getByRole("menuitem", { name: item }).click();
}

describe("creating a stream, accessible in each state", () => {
  it("makes a webhook's secret, shows it once, seals it for the function, and shows when the test has arrived", async () => {
    const { view, page, id } = await openStreams();
    await view.shows("No streams yet");
    await view.assertAccessible("streams-empty");
    await view.press("Create the first stream");
    await page.getByLabel("Name").fill("SIEM");
    await page.getByLabel("Address", { exact: true }).fill("https://siem.example.com/in");
    const secret = await page.getByRole("group", { name: "Signing secret" }).innerText();
    assertMatch(secret, /^whsec_[A-Za-z0-9+/]{32}$/);
    await view.assertAccessible("stream-new");
    await page.getByLabel(/^I have stored the secret/).check();
    await view.press("Create and test", "A test entry is on its way.");
    assertEquals(await opened(id), secret);
    assertEquals((await storedStream(id)).hint, `…${secret.slice(-4)}`);
    assert(!(await page.content()).includes(secret));
    await send({ id, name: "SIEM" }, DELIVERED);
    await view.shows("The test has arrived: 200 in 84 ms");
    await view.shows("Your receiver has an entry with the action audit_log_test.");
    await view.assertAccessible("stream");
  });

  it("asks for each kind's fields, sends the log from the beginning and chosen actions only, and says what to do when the test fails", async () => {
    const { view, page, id } = await openStreams(undefined, "streams/new");
    await page.getByRole("radio", { name: "Slack" }).check();
    await page.getByLabel("Name").fill("Alarm");
    await page.getByLabel("Webhook address").fill("https://evil.example.com/T1/B1/secret");
    await view.press("Create and test", "The address of a Slack webhook begins with");
    await page.getByRole("radio", { name: "Splunk" }).check();
    await page.getByLabel("Address of the HTTP Event Collector").fill("https://10.0.0.1:88");
    await page.getByLabel("Token").fill("0b9c5a6e-4d5c-4a57-9d3b-d3f0c0a1x9Qa");
    await page.getByRole("radio", { name: "The beginning of the log" }).check();
    await page.getByRole("radio", { name: "Some actions" }).check();
    assert(await view.button("Create and test").isDisabled());
    await page.getByRole("checkbox", { name: "Message created" }).check();
    await view.assertAccessible("stream-new-splunk");
    await view.press("Create and test", "A destination has a kind and a url, which begins with");
    await page.getByLabel("Address of the HTTP Event Collector").fill("https://a.example.com:8088");
    await view.press("Create and test", "A test entry is on its way.");
    assertEquals(await opened(id), "0b9c5a6e-4d5c-4a57-9d3b-d3f0c0a1x9Qa");
    const { actions, place } = await storedStream(id);
    assertEquals([actions, place], [["message_created"], null]);
    await send({ id, name: "Alarm" }, FORBIDDEN);
    await view.shows("The test entry was not accepted. Nothing is sent before one is.");
    await page.getByText(FORBIDDEN.error).first().waitFor();
    await view.shows("Check the token: it is wrong, disabled, or may not write here.");
    await view.assertAccessible("stream-test-failed");
  });

  it("cannot happen while the function that delivers does not answer, and says how to deploy it", async () => {
    const { view } = await openScreen("streams/new");
    await view.shows("npx supabase functions deploy audit-log-streams");
    assert(await view.button("Create and test").isDisabled());
    await view.assertAccessible("stream-not-deployed");
  });
});

describe("a stream's secret", () => {
  it("never comes back, stays with another path, and is asked for again for another host", async () => {
    const { view, page, id } = await openStreams(({ id }) => newStream(id));
    const answers: Promise<string>[] = [];
    page.on("response", (response) => {
      if (response.url().includes("/rpc/")) answers.push(response.text());
    });
    await page.getByRole("link", { name: "Splunk EU" }).click();
    await view.press("Change", "ends in …x9Qa");
    const address = page.getByLabel("Address of the HTTP Event Collector");
    await address.fill("https://splunk.example.com:8088/path");
    await view.press("Save", "A test entry is on its way.");
    assertEquals((await storedStream(id)).sealed, "k.p.i.s");
    await view.press("Change", "ends in …x9Qa");
    await address.fill("https://splunk.example.net");
    await view.shows("This is another host. The stored secret is not sent there");
    await view.assertAccessible("stream-other-host");
    await page.getByLabel("Token").fill("the-token-of-the-other-host");
    await view.press("Save", "A test entry is on its way.");
    assertEquals(await opened(id), "the-token-of-the-other-host");
    assert(!(await Promise.all(answers)).join().includes("k.p.i.s"));
  });

  it("of a webhook is replaced by a new one, while the old one signs, too, for a day", async () => {
    const destination = { kind: "webhook", url: "https://siem.example.com/in" };
    const { view, page, id } = await openStreams(({ id }) =>
      newStream(id, "SIEM", { destination })
    );
    await page.getByRole("link", { name: "SIEM" }).click();
    await view.press("Change");
    await view.press("Replace", "For a day, the old secret signs, too.");
    const secret = await page.getByRole("group", { name: "Signing secret" }).innerText();
    await page.getByLabel(/^I have stored the secret/).check();
    await view.press("Save", "the old one signs, too, until");
    assertEquals([await opened(id), (await storedStream(id)).sealed_before], [secret, "k.p.i.s"]);
  });
});

describe("streams in trouble", () => {
  it("come first in the list, are named on every screen until they work again, and can be tried at once", async () => {
    const { view, page, id } = await openStreams(async ({ id }) => {
      await writeEntries(id, [{}]);
      await newStream(id, "A bucket", {
        entries: 1204,
        caught_up_at: new Date(),
        delivered_at: new Date(),
      });
      await newStream(id, "Splunk EU", {
        failures: 9,
        failing_since: new Date(Date.now() - 2 * 3_600_000 - 60_000),
        delivered_at: new Date(Date.now() - 2 * 3_600_000 - 60_000),
        last_error: FORBIDDEN.error,
        last_status: 403,
        due_at: new Date(Date.now() + 1_800_000),
      });
      await sql`
        insert into audit_log_private.stream_hours
        select organization_id, id, n, date_trunc('hour', now(), 'UTC') - n * interval '1 hour',
          case when name = 'A bucket' or n > 2 then 40 + 30 * (n % 7) else 0 end,
          case when name <> 'A bucket' and n < 3 then 4 else 0 end
        from audit_log_private.streams, generate_series(0, 23) as n where organization_id = ${id}`;
    });
    const row = page.getByRole("rowheader");
    await row.first().waitFor();
    assertEquals(await row.allInnerTexts(), [
      "Splunk EU\nSplunk, splunk.example.com:8088",
      "A bucket\nSplunk, splunk.example.com:8088",
    ]);
    await view.assertAccessible("streams");
    await view.goTo("Log");
    const banner = page.getByRole("alert").filter({ hasText: "has delivered nothing for 2 hours" });
    await banner.getByText("Nothing is lost: entries wait in the log.").waitFor();
    await view.assertAccessible("log-stream-failing");
    await banner.getByRole("link", { name: "Splunk EU" }).click();
    await view.shows("Nothing has arrived for 2 hours. Next try in 30 minutes.");
    await view.assertAccessible("stream-failing");
    await view.press("Retry now", "The next try is due.");
    await send({ id, name: "Splunk EU" }, DELIVERED);
    await view.shows(/Every entry is delivered/);
    await view.goTo("Log");
    await banner.waitFor({ state: "detached" });
  });

  it("are stopped by a pause, which says what it may cost, go on where they were, and are gone when deleted", async () => {
    const { view, page, id } = await openStreams(async ({ id }) => {
      await sql`update audit_log.organizations set keep_days = 90 where id = ${id}`;
      await newStream(id);
    });
    await page.getByRole("link", { name: "Splunk EU" }).click();
    await openMenu(view, "Pause …");
    await view.shows("Retention deletes entries after 90 days: those that still wait then");
    await view.assertAccessible("stream-pause");
    await view.press(/^Pause$/, /Stopped .* by /);
    await view.press("Resume …");
    await view.assertAccessible("stream-resume");
    await view.press(/^Resume$/, "Sends the entries that are there already");
    await openMenu(view, "Delete …");
    await view.press("Delete stream", "No streams yet");
    assertEquals(await storedStream(id), undefined);
  });

  it("list the entries that a destination refused, and send them again", async () => {
    const { view, page } = await openStreams(async ({ id }) => {
      await writeEntries(id, [{ created_at: "2026-03-01T12:00:00Z" }]);
      await newStream(id);
      await sql`
        insert into audit_log_private.refused_entries
        select organization_id, (select id from audit_log_private.streams s
          where s.organization_id = e.organization_id), created_at, id, now(), 'mapper_parsing_exception'
        from audit_log.audit_entries e where organization_id = ${id}`;
    });
    await page.getByRole("link", { name: "Splunk EU" }).click();
    await view.shows("mapper_parsing_exception");
    await view.assertAccessible("stream-set-aside");
    await view.press("Send again", "is sent again");
    await page.getByRole("link", { name: "2026-03-01 12:00:00" }).click();
    await view.entry.waitFor();
  });
});
