import { assertEquals, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { sql, writeEntries } from "../helpers.ts";
import { chooseAction, openScreen, type Page, press, shell, shows } from "./browser.ts";

/** Opens the export of a day with so many entries, of which one in four is feedback. */
async function openExport(count: number, { person = "", action = "" } = {}) {
  const { page, organization } = await openScreen(
    `log?start=2026-03-01&end=2026-03-01${person && `&person=${person}`}`,
    ({ organization: { id } }) =>
      sql`
        insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name, data)
        select ${id}, timestamptz '2026-03-01T00:00:00Z' + n * interval '1 second',
          case n % 4 when 0 then 'feedback_given' else 'agent_added' end,
          case n % 3 when 2 then 'bob@example.com' else 'ada@example.com' end, '=1+"' || n || E'",\n', '{"big": 12345678901234567890.10, "x": ",\\"data\\":"}'
        from generate_series(1, ${count}) as n`,
  );
  // Downloads: headless, nobody answers the dialog for a file.
  await page.evaluate("window.showSaveFilePicker = undefined");
  if (action) await chooseAction(page, action);
  await press(page, "Export");
  return { page, organization };
}

/** Exports what is shown; the file's name and text. */
async function exportAs(page: Page, format: "NDJSON" | "CSV") {
  await page.getByText(format, { exact: true }).click();
  const download = page.waitForEvent("download");
  await press(page, `Export ${format}`);
  const file = await download;
  return { name: file.suggestedFilename(), text: await Deno.readTextFile(await file.path()) };
}

describe("an export", () => {
  it("as NDJSON is byte for byte what the API answers to the curl command that it names", async () => {
    const { page, organization } = await openExport(4, { person: "ada@example.com" });
    const curl = await page.getByRole("group", { name: "The same with an API key" }).innerText();
    const { name, text } = await exportAs(page, "NDJSON");
    assertEquals(name, "audit-log_2026-03-01_2026-03-01_ada@example.com.ndjson");
    assertEquals(text.split("\n").length, 4);
    assertEquals(await shell(curl, { API_KEY: organization.token }), text);
  });

  it("as CSV has exactly what is filtered, with all digits and quotes, in the columns that one chooses", async () => {
    const { page } = await openExport(8, { action: "Feedback given" });
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
    for (const name of ["id", "agent_name", "data"]) {
      await page.getByRole("checkbox", { name, exact: true }).uncheck();
    }
    assertEquals((await exportAs(page, "CSV")).text.split("\r\n").slice(0, 2), [
      "created_at,action,user_email",
      '"2026-03-01T00:00:04.000Z","feedback_given","ada@example.com"',
    ]);
  });

  it("has each entry once, also those that arrive meanwhile, and though an answer is lost", async () => {
    const { page, organization } = await openExport(2500);
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
    const { text } = await exportAs(page, "NDJSON");
    const ids = text.trimEnd().split("\n").map((line) => JSON.parse(line).id);
    assertEquals([ids.length, new Set(ids).size], [2502, 2502]);
    await shows(page, "2,502 entries written");
  });

  it("shows how far it is, and can be cancelled; says so when it fails, and begins anew", async () => {
    const { page } = await openExport(1250);
    let pages = 0;
    await page.route("**/rpc/read_audit_log", async (route) => {
      if (route.request().postData()?.includes('"after"') && ++pages === 2) return;
      await route.continue();
    });
    await press(page, "Export NDJSON", "1,000 of 1,250 entries");
    assertEquals(await page.getByRole("progressbar").getAttribute("aria-valuenow"), "80");
    await press(page, "Cancel");
    await page.getByRole("button", { name: "Export NDJSON" }).waitFor();
    assertEquals(await page.getByText("written").count(), 0);
    await page.context().setOffline(true);
    await press(page, "Export NDJSON");
    await page.getByText("No answer from the server").first().waitFor();
    await page.context().setOffline(false);
    assertEquals((await exportAs(page, "NDJSON")).text.split("\n").length, 1251);
  });

  it("goes to the disk while it is read, where the browser lets the page choose a file", async () => {
    const { page } = await openExport(1250);
    // A file of the browser's own storage stands for the one that a person would choose.
    await page.evaluate(`window.showSaveFilePicker = async ({ suggestedName }) =>
      (await navigator.storage.getDirectory()).getFileHandle(suggestedName, { create: true })`);
    await press(page, "Export NDJSON", "1,250 entries written");
    const text = await page.evaluate<string>(`navigator.storage.getDirectory()
      .then((folder) => folder.getFileHandle("audit-log_2026-03-01_2026-03-01.ndjson"))
      .then((handle) => handle.getFile()).then((file) => file.text())`);
    assertEquals(text.split("\n").length, 1251);
  });
});
