// Needs a stack and a browser. Slow.

import { assertEquals, assertStringIncludes } from "@std/assert";
import { it } from "@std/testing/bdd";
import { insertEntries, openScreen, type Page, readDay, sql } from "../helpers/browser.ts";
import { type View, writeEntries } from "../helpers/browser.ts";

/** Opens the export of a day with so many entries of Ada, every other one feedback, and one of Bob. */
async function openExport(count: number, filter = "") {
  const opened = await openScreen(
    `log?start=2026-03-01&end=2026-03-01${filter}`,
    async ({ id }) => {
      const given = { agent_name: '=1+"4",\n', data: '{"big": 12345678901234567890.10}' };
      await insertEntries(sql, id, "2026-03-01", count, given);
      await insertEntries(sql, id, "2026-03-01", 1, { user_email: "bob@example.com" });
    },
  );
  await opened.view.press("Export");
  return opened;
}

/** Exports what is shown, and returns the file's name and text. */
async function exportAs(view: View, format: "NDJSON" | "CSV") {
  await view.page.getByText(format, { exact: true }).click();
  const { name, path } = await view.download(`Export ${format}`);
  return { name, text: await Deno.readTextFile(path) };
}

/** Makes a file of the browser's own storage stand for the one that a person would choose. Returns how to read it. */
async function storeFiles(page: Page): Promise<(name: string) => Promise<string>> {
  const open = (name: string, options = "") =>
    `navigator.storage.getDirectory().then((folder) => folder.getFileHandle(${name}, ${options}))`;
  await page.evaluate(
    `window.showSaveFilePicker = ({ suggestedName }) => ${
      open("suggestedName", "{ create: true }")
    }`,
  );
  return (name) =>
    page.evaluate(
      `${
        open(JSON.stringify(name))
      }.then((handle) => handle.getFile()).then((file) => file.text())`,
    );
}

it("an export, accessible in each state, has the bytes of the API as NDJSON", async () => {
  const { view, token } = await openExport(
    3,
    "&action=message_created,feedback_given&user_email=ada@example.com",
  );
  await view.shows("(UTC) that match the filter, oldest first.");
  const conditions = ["Action: Message created", "Action: Feedback given"];
  for (const condition of [...conditions, "Person: ada@example.com"]) {
    await view.page.getByRole("dialog").getByText(condition).waitFor();
  }
  await view.shows("Seals prove whole days only");
  const { name, text } = await exportAs(view, "NDJSON");
  assertEquals(
    name,
    "audit-log_2026-03-01_2026-03-01_message_created,feedback_given_ada@example.com.ndjson",
  );
  assertEquals(text.split("\n").length, 2);
  assertStringIncludes(await readDay(token, "2026-03-01"), text);
});

it("an export, accessible in each state, has the filtered entries as CSV, with all digits and quotes, the target, and without a formula", async () => {
  const action = `shared.${crypto.randomUUID()}`;
  await sql`
    insert into audit_log.actions (code, description, required, target_name)
    values (${action}, 'Somebody shared a file', '{file_id}', 'file')`;
  const { view, page, id } = await openExport(4, `&action=feedback_given,${action}`);
  const shared = [{ file_id: "f1", file: "=Plan" }, { file_id: "f2", file: "" }, {
    file_id: "f3",
  }];
  const created_at = "2026-03-01T23:59:59Z";
  await writeEntries(id, shared.map((data) => ({ action, created_at, data })));
  await page.getByText("CSV", { exact: true }).click();
  await view.assertAccessible("log-export");
  const { text } = await exportAs(view, "CSV");
  const lines = text.split("\r\n");
  // With its byte order mark, Excel reads umlauts.
  assertEquals(lines[0], "\ufeffid,created_at,action,user_email,agent_name,data,target");
  assertEquals(lines.length, 7);
  assertStringIncludes(
    lines[1] ?? "",
    `,"'=1+""4"",\n","{""big"": 12345678901234567890.10}",""`,
  );
  const targets = lines.slice(3, 6).map((line) => line.match(/,"([^"]*)"$/)?.[1]);
  assertEquals(targets.sort(), ["'=Plan", "f2", "f3"]);
});

it("an export, accessible in each state, goes to the disk where the browser lets a person choose a file, shows its progress, begins anew after a failure, is not left half when it is cancelled, and has each entry once when entries arrive meanwhile and an answer gets lost", async () => {
  const { view, page, id } = await openExport(2499);
  const readFile = await storeFiles(page);
  await page.context().setOffline(true);
  await view.press("Export NDJSON");
  await page.getByText("No answer from the server").first().waitFor();
  await page.context().setOffline(false);
  // The second page never comes.
  await page.route(
    "**/rpc/read_audit_log",
    (route) => route.request().postData()?.includes('"after":"beginning"') && route.continue(),
  );
  await view.press("Export NDJSON");
  await page.locator("[role=progressbar]:not([aria-valuenow='0'])").waitFor();
  await view.press("Cancel");
  await page.getByRole("progressbar").waitFor({ state: "hidden" });
  assertEquals(await readFile("audit-log_2026-03-01_2026-03-01.ndjson"), "");
  assertEquals(await page.getByRole("alert").count(), 0);
  await page.unrouteAll({ behavior: "ignoreErrors" });
  // The answer gets lost, and meanwhile entries arrive before and behind what has been read.
  let pages = 0;
  await page.route("**/rpc/read_audit_log", async (route) => {
    if (!route.request().postData()?.includes('"after"') || ++pages !== 2) {
      return await route.continue();
    }
    await page.locator("[role=progressbar][aria-valuenow='40']").waitFor();
    await writeEntries(id, [
      { created_at: "2026-03-01T00:00:00Z", agent_name: "early" },
      { created_at: "2026-03-01T23:59:59Z", agent_name: "late" },
    ]);
    await route.abort();
  });
  await view.press("Export NDJSON", "2,502 entries written");
  const text = await readFile("audit-log_2026-03-01_2026-03-01.ndjson");
  const ids = text.trimEnd().split("\n").map((line) => JSON.parse(line).id);
  assertEquals([ids.length, new Set(ids).size], [2502, 2502]);
});
