import { assertEquals, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { AUDIT_LOG_URL, sql, writeEntries } from "../helpers.ts";
import { chooseAction, newAdmin, openConsole, type Page, shell } from "./browser.ts";

const ONE_DAY = "start=2026-03-01&end=2026-03-01";

/** The log of a new organization with so many entries on one day, of which one in four is feedback. */
async function openDay(count: number, filter = "") {
  const { admin, organization } = await newAdmin();
  await sql`
    insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name, data)
    select ${organization.id}, timestamptz '2026-03-01T00:00:00Z' + n * interval '1 second',
      case n % 4 when 0 then 'feedback_given' else 'agent_added' end,
      case n % 3 when 2 then 'bob@example.com' else 'ada@example.com' end, '=1+"' || n || E'",\n', '{"big": 12345678901234567890.10, "x": ",\\"data\\":"}'
    from generate_series(1, ${count}) as n`;
  const { page } = await openConsole(admin, `#/${organization.id}/log?${ONE_DAY}${filter}`);
  // Downloads: headless, nobody answers the dialog for a file.
  await page.evaluate("window.showSaveFilePicker = undefined");
  await page.getByText("newest first").waitFor();
  return { page, organization };
}

/** Exports what is shown; the file's name and text. */
async function exportAs(page: Page, format: "NDJSON" | "CSV") {
  await page.getByText(format, { exact: true }).click();
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: `Export ${format}` }).click();
  const file = await download;
  return { name: file.suggestedFilename(), text: await Deno.readTextFile(await file.path()) };
}

describe("an export", () => {
  it("as NDJSON is what the API answers, byte for byte", async () => {
    const { page, organization: { token } } = await openDay(2500);
    await page.getByRole("button", { name: "Export" }).click();
    const { name, text } = await exportAs(page, "NDJSON");
    assertEquals(name, "audit-log_2026-03-01_2026-03-01.ndjson");
    await page.getByText("2,500 entries written").waitFor();
    let expected = "";
    for (const offset of [0, 1000, 2000]) {
      const response = await fetch(`${AUDIT_LOG_URL}?${ONE_DAY}&limit=1000&offset=${offset}`, {
        headers: { Authorization: `Bearer ${token}`, Accept: "application/x-ndjson" },
      });
      expected += await response.text();
    }
    assertEquals(text, expected);
  });

  it("has exactly what is filtered, as CSV with all digits and quotes", async () => {
    const { page } = await openDay(8);
    await chooseAction(page, "Feedback given");
    await page.getByText("1–2 of 2 entries").waitFor();
    await page.getByRole("button", { name: "Export" }).click();
    const { name, text } = await exportAs(page, "CSV");
    assertEquals(name, "audit-log_2026-03-01_2026-03-01_feedback_given.csv");
    const lines = text.split("\r\n");
    assertEquals(lines[0], "id,created_at,action,user_email,agent_name,data");
    assertEquals(lines.length, 4);
    assertStringIncludes(
      lines[1] ?? "",
      '"2026-03-01T00:00:04.000Z","feedback_given","ada@example.com","=1+""4"",\n",',
    );
    assertStringIncludes(lines[1] ?? "", "12345678901234567890.10");
  });

  it("as CSV has the columns that one chooses", async () => {
    const { page } = await openDay(4);
    await page.getByRole("button", { name: "Export" }).click();
    await page.getByText("CSV", { exact: true }).click();
    for (const name of ["id", "agent_name", "data"]) {
      await page.getByRole("checkbox", { name, exact: true }).uncheck();
    }
    const { text } = await exportAs(page, "CSV");
    assertEquals(text.split("\r\n").slice(0, 2), [
      "created_at,action,user_email",
      '"2026-03-01T00:00:01.000Z","agent_added","ada@example.com"',
    ]);
  });

  it("has each entry once, also those that arrive meanwhile, and though an answer is lost", async () => {
    const { page, organization } = await openDay(2500);
    // The second page gets lost; then entries arrive before and behind what has been read.
    let pages = 0;
    await page.route("**/rpc/read_audit_log", async (route) => {
      if (route.request().postData()?.includes('"after"') && ++pages === 2) {
        await writeEntries(organization.id, [
          { created_at: "2026-03-01T00:00:00Z", agent_name: "early" },
          { created_at: "2026-03-01T23:59:59Z", agent_name: "late" },
        ]);
        return route.abort();
      }
      await route.continue();
    });
    await page.getByRole("button", { name: "Export" }).click();
    const { text } = await exportAs(page, "NDJSON");
    const ids = text.trimEnd().split("\n").map((line) => JSON.parse(line).id);
    assertEquals([ids.length, new Set(ids).size], [2502, 2502]);
    await page.getByText("2,502 entries written").waitFor();
  });

  it("shows how far it is, and can be cancelled", async () => {
    const { page } = await openDay(2500);
    let pages = 0;
    await page.route("**/rpc/read_audit_log", async (route) => {
      if (route.request().postData()?.includes('"after"') && ++pages === 2) return;
      await route.continue();
    });
    await page.getByRole("button", { name: "Export" }).click();
    await page.getByRole("button", { name: "Export NDJSON" }).click();
    await page.getByText("1,000 of 2,500 entries").waitFor();
    assertEquals(await page.getByRole("progressbar").getAttribute("aria-valuenow"), "40");
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("button", { name: "Export NDJSON" }).waitFor();
    assertEquals(await page.getByText("written").count(), 0);
  });

  it("goes to the disk while it is read, where the browser lets the page choose a file", async () => {
    const { page } = await openDay(2500);
    // A file of the browser's own storage stands for the one that a person would choose.
    await page.evaluate(`window.showSaveFilePicker = async ({ suggestedName }) =>
      (await navigator.storage.getDirectory()).getFileHandle(suggestedName, { create: true })`);
    await page.getByRole("button", { name: "Export" }).click();
    await page.getByRole("button", { name: "Export NDJSON" }).click();
    await page.getByText("2,500 entries written").waitFor();
    const text = await page.evaluate<string>(`navigator.storage.getDirectory()
      .then((folder) => folder.getFileHandle("audit-log_2026-03-01_2026-03-01.ndjson"))
      .then((handle) => handle.getFile()).then((file) => file.text())`);
    assertEquals(text.split("\n").length, 2501);
  });

  it("says so when it fails, and begins anew when asked again", async () => {
    const { page } = await openDay(4);
    await page.getByRole("button", { name: "Export" }).click();
    await page.context().setOffline(true);
    await page.getByRole("button", { name: "Export NDJSON" }).click();
    await page.getByText("No answer from the server").first().waitFor();
    await page.context().setOffline(false);
    assertEquals((await exportAs(page, "NDJSON")).text.split("\n").length, 5);
  });

  it("names a curl command that gives the same with a key", async () => {
    const { page, organization } = await openDay(4, "&person=ada@example.com");
    await page.getByRole("button", { name: "Export" }).click();
    const curl = await page.getByRole("group", { name: "The same with an API key" }).innerText();
    const { text } = await exportAs(page, "NDJSON");
    assertEquals(text.split("\n").length, 4);
    assertEquals(await shell(curl, { API_KEY: organization.token }), text);
  });
});
