import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { fileURLToPath } from "node:url";
import { insertEntries, runUpkeep, sql, writeEntries } from "../helpers.ts";
import { runDeno, runProgram } from "../run_program.ts";
import { CONSOLE_URL, newAdmin, openConsole, openScreen, type Page, type View } from "./browser.ts";
import { download, storeFiles } from "./files.ts";

const CASES = fileURLToPath(new URL("../../seals/cases/", import.meta.url));
const CLI = fileURLToPath(new URL("../../cli/main.ts", import.meta.url));
const FOLDER = await Deno.makeTempDir();

/** The seal with this number of an organization, or its last, as people keep it. */
async function sealOf(id: string, sequence = 2_000): Promise<string> {
  const [seal] = await sql`
    select sequence, seal from audit_log_private.seals
    where organization_id = ${id} and sequence <= ${sequence} order by sequence desc limit 1`;
  return `${seal?.["sequence"]}:${seal?.["seal"]}`;
}

/** Opens the screen that proves a month, of an organization with three sealed days in March 2026. */
async function openProof(sequence?: number) {
  const opened = await openScreen("seals", async ({ id }) => {
    await insertEntries(sql, id, "2026-03-01", 1249);
    await insertEntries(sql, id, "2026-03-02", 3, { action: "feedback_given" });
    await runUpkeep(sql);
    await insertEntries(sql, id, "2026-03-31", 2);
    await runUpkeep(sql);
  });
  const { view, page, id } = opened;
  await view.press("Prove a period");
  await page.getByLabel("Month").fill("2026-03");
  const kept = sequence ? await sealOf(id, sequence) : "";
  await page.getByLabel("Seal that you kept elsewhere").fill(kept);
  await view.shows("3 days with 1,254 entries, 3 of them sealed.");
  return { ...opened, kept };
}

/** Makes a ZIP by commands of Python, in which `z` is the ZIP. */
async function newZip(name: string, commands: string): Promise<string> {
  const path = `${FOLDER}/${name}.zip`;
  const script = `import zipfile, glob, os, struct, zlib
with zipfile.ZipFile(${JSON.stringify(path)}, "w", zipfile.ZIP_DEFLATED) as z:
  ${commands.replaceAll("\n", "\n  ")}`;
  const { code, stderr } = await runProgram("python3", { args: ["-W", "ignore", "-c", script] });
  assertEquals(code, 0, stderr);
  return path;
}

/** Commands that put a case's days and seals into a ZIP. */
function caseFiles(name: string, seals = name): string {
  return `for path in glob.glob("${CASES}${name}/*.ndjson"): z.write(path, "days/" + os.path.basename(path))
z.write("${CASES}${seals}/seals.json", "seals.json")`;
}

async function check(page: Page, path: string, kept = ""): Promise<void> {
  const field = page.getByLabel("Seal that you kept elsewhere");
  if (await field.inputValue() !== kept) await field.fill(kept);
  await page.getByLabel("Evidence pack", { exact: true }).setInputFiles(path);
  await page.getByRole("progressbar").waitFor({ state: "hidden" });
}

async function openCheck(): Promise<View> {
  const view = await openConsole(null);
  await view.page.getByRole("link", { name: "Check an evidence pack" }).click();
  await view.page.getByRole("heading", { name: "Check an evidence pack" }).waitFor();
  return view;
}

describe("seals, accessible in each state", () => {
  it("are shown by day as sealed, not yet sealed or altered, and the latest is copied", async () => {
    const { admin, id } = await newAdmin();
    await writeEntries(id, [{ created_at: "2026-03-01T12:00:00Z" }]);
    await runUpkeep(sql);
    await sql`delete from audit_log.audit_entries where organization_id = ${id}`;
    await writeEntries(id, [{ created_at: "2026-03-01T13:00:00Z" }]);
    await runUpkeep(sql);
    await writeEntries(id, [
      { created_at: "2026-03-02T12:00:00Z" },
      { created_at: "2026-03-02T13:00:00Z" },
    ]);
    await runUpkeep(sql);
    await writeEntries(id, [
      { created_at: "2026-03-02T14:00:00Z" },
      { created_at: "2026-03-03T12:00:00Z" },
    ]);
    // As the upkeep marks a day whose entries were changed behind the triggers.
    await sql`
      update audit_log_private.sealed_days set altered_at = '2026-03-09T01:02:03Z'
      where organization_id = ${id} and day = '2026-03-01'`;
    await sql`select audit_log_private.hold(${id}, 'Matter 7', 'Grace, Legal')`;
    await sql`update audit_log.organizations set keep_days = 3650 where id = ${id}`;
    const view = await openConsole(admin, `#/${id}/seals?start=2026-03-01&end=2026-03-04`);
    const { page } = view;
    await view.shows("On hold: the service deletes no entry");
    await view.shows("Matter 7, by Grace, Legal");
    await view.shows("Entries are deleted after 3,650 days (since ");
    const altered = await view.row("2026-03-01").innerText();
    assertMatch(altered, /Altered · sealed 20\S+ \S+, found altered 2026-03-09 01:02:03/);
    assertMatch(altered, /Since its first seal: 1 added, 1 removed/);
    await view.row("2026-03-02").getByText("Sealed", { exact: true }).waitFor();
    await view.row("2026-03-02").getByText("Sealed with 2 entries. The next seal will say")
      .waitFor();
    await view.row("2026-03-03").getByText("Not yet sealed").waitFor();
    const days = await page.getByRole("rowheader").allInnerTexts();
    assertEquals(days, ["2026-03-03", "2026-03-02", "2026-03-01"]);
    const alert = page.getByRole("alert");
    await alert.getByText("2026-03-01 was altered after sealing.").waitFor();
    assertEquals(await alert.count(), 1);
    await view.shows("What to do about an altered day");
    assertEquals(await page.getByRole("listitem").count(), 5);
    const how = page.getByRole("link", { name: "How to compare" });
    const { pathname, hash } = new URL(await how.evaluate((link) => String(link)));
    const answer = await fetch(`${CONSOLE_URL}${pathname.slice(1)}`);
    assertStringIncludes(await answer.text(), `id="${hash.slice(1)}"`);
    await view.shows("1 day sealed, 1 not yet, 1 altered, 1 day without entries.");
    await view.assertAccessible("seals");
    await page.getByRole("link", { name: "Make an evidence pack" }).click();
    assertEquals(await page.getByLabel("Month").inputValue(), "2026-03");
    await view.shows(/^2026-03-02: entries were added or removed after the seal\./);
    await view.assertAccessible("prove-late");
    await page.goBack();
    const kept = await sealOf(id);
    assertEquals(await view.copy("latest seal"), kept);
    await page.setViewportSize({ width: 360, height: 900 });
    assertEquals(await view.copy("seal of 2026-03-02"), kept);
    await page.goto(`${CONSOLE_URL}#/${id}/log?start=2026-03-01&end=2026-03-09`);
    await page.getByRole("option", { name: "2026-03-01: 1 entry, altered" })
      .waitFor();
    await page.getByRole("option", { name: "2026-03-02: 3 entries, sealed" }).waitFor();
    await page.getByRole("option", { name: "2026-03-03: 1 entry, not yet sealed" }).waitFor();
    await page.getByRole("alert").getByRole("link", { name: "2026-03-01" }).waitFor();
    await view.assertAccessible("log-altered");
    // Of any age, on every screen.
    for (const screen of ["log?range=7d", "usage", "keys"]) {
      await page.goto(`${CONSOLE_URL}#/${id}/${screen}`);
      await page.getByRole("alert").getByText("2026-03-01 was altered after sealing.").waitFor();
    }
  });

  it("are all shown, and downloaded as one answer of the API, when there are more than a page of them", async () => {
    const { view, page, id } = await openScreen(
      "seals?start=2020-01-01&end=2022-12-31",
      async ({ id }) => {
        await insertEntries(sql, id, "2020-01-01", 1005, { every: "1 day" });
        await runUpkeep(sql);
      },
    );
    await view.row("2022-10-01").getByText("Sealed", { exact: true }).waitFor();
    assertEquals(await page.getByText("Sealed", { exact: true }).count(), 1005);
    await page.setViewportSize({ width: 375, height: 812 });
    const height = await view.highestRow();
    assert(height <= 72, `${height} pixels a day`);
    const { name, path } = await download(view, "Download seals.json");
    const { items, total, organization_id } = JSON.parse(await Deno.readTextFile(path));
    assertEquals([name, items.length, total, organization_id], ["seals.json", 1005, 1005, id]);
    assertEquals(`1005:${items.at(-1).seal}`, await sealOf(id));
  });
});

describe("an evidence pack", () => {
  it("proves a month, and verify takes it without network; a byte that changes in it is seen", async () => {
    const { view, page, id, kept } = await openProof(3);
    await view.assertAccessible("prove");
    const { path } = await download(view, "Make the pack");
    await page.getByRole("status").getByText("Proven", { exact: true }).waitFor();
    await view.shows("2026-03-01 – 2026-03-31, 3 days with 1,254 entries. Since somebody kept");
    await view.assertAccessible("proved");

    const folder = `${path}.d`;
    const names = await runProgram("python3", { args: ["-m", "zipfile", "-l", path] });
    assertMatch(names.stdout, /kept\.txt .*\nreport\.html .*\n$/);
    const unzip = await runProgram("python3", { args: ["-m", "zipfile", "-e", path, folder] });
    assertEquals(unzip.code, 0, unzip.stderr);
    const report = await Deno.readTextFile(`${folder}/report.html`);
    assertStringIncludes(report, "<h2>Proven</h2>");
    assertStringIncludes(report, "<td>feedback_given</td><td>628</td>");
    assertStringIncludes(report, "<td>2026-03-01</td><td>proven</td><td>1249</td>");
    assertEquals(await Deno.readTextFile(`${folder}/kept.txt`), `${kept}\n`);
    const march = ["--start=2026-03-01", "--end=2026-03-31"];
    const verify = ["verify", "days", "--seals=seals.json", ...march, `--kept=${kept}`];
    const args = ["run", "--allow-all", "--deny-net", CLI, ...verify];
    const verified = await runDeno({ args, cwd: folder });
    assertEquals([verified.code, verified.stdout.split("\n").length], [0, 2], verified.stderr);

    const other = await openCheck();
    const calls = other.recordCalls();
    await check(other.page, path);
    await other.shows("Whoever made it had the seal");
    await other.shows(`, of Test (${id}), as its seals.json says.`);
    await other.assertFits("pack-named");
    await other.page.getByLabel("Seal that you kept elsewhere").fill(kept);
    await other.press("Check again");
    await other.page.getByRole("status").getByText("Proven", { exact: true }).waitFor();
    assertEquals(calls, []);
    const changed = await newZip(
      "changed",
      `for path in glob.glob("${folder}/days/*"):
  z.writestr("days/" + os.path.basename(path), open(path).read().replace('ada@', 'eda@', 1))
z.write("${folder}/seals.json", "seals.json")`,
    );
    await check(other.page, changed, kept);
    await other.shows("Not as it was sealed");
    const meaning = other.page.getByRole("link", { name: "What each can mean" });
    assertMatch(await meaning.getAttribute("href") ?? "", /docs\/verifying.html#when-something/);
    await other.shows("2026-03-01 differs from seal 1: 1249 entries were sealed, here are 1249");
    const bytes = await Deno.readFile(path);
    bytes[1000] = (bytes[1000] ?? 0) ^ 1;
    await Deno.writeFile(`${path}.zip`, bytes);
    await check(other.page, `${path}.zip`, kept);
    await other.page.getByRole("alert").or(other.page.getByText("Not as it was sealed")).waitFor();
    await other.assertAccessible("pack");
  });

  it("is intact inside but not yet proven without a seal that was kept, and is proven in part with an older one", async () => {
    const { view, page, id } = await openProof();
    const { path } = await download(view, "Make the pack");
    await view.shows("evidence_2026-03.zip is written.");
    await page.getByRole("status").getByText("Intact inside, not yet proven").waitFor();
    await view.shows("To prove it, compare a seal that you kept elsewhere.");
    await view.assertAccessible("agrees");
    const other = await openCheck();
    await check(other.page, path);
    await other.page.getByRole("status").getByText("Intact inside, not yet proven", { exact: true })
      .waitFor();
    await other.page.getByLabel("Seal that you kept elsewhere").fill(await sealOf(id, 2));
    await other.press("Check again");
    await other.shows("Proven in part");
    await other.shows("2 of 3 days were sealed up to the seal 2");
    // The last pack has a seal to keep.
    await page.getByLabel("Earlier pack").setInputFiles(path);
    await page.locator(`input[value="${await sealOf(id)}"]`).waitFor();
    // A day that lost an entry openly is as it was sealed again, which is not all there is to say.
    await sql`
      delete from audit_log.audit_entries where organization_id = ${id} and created_at = (
        select max(created_at) from audit_log.audit_entries
        where organization_id = ${id} and created_at < '2026-03-03')`;
    await runUpkeep(sql);
    const { path: later } = await download(view, "Make the pack");
    const unzip = [
      "-c",
      `import zipfile; print(zipfile.ZipFile("${later}").read("report.html").decode())`,
    ];
    const { stdout: report } = await runProgram("python3", { args: unzip });
    assertStringIncludes(
      report,
      "entries of 2026-03-02 were removed (1), but 2026-03-01 still has entries: it was not retention",
    );
    assertStringIncludes(
      report,
      "<td>2026-03-02</td><td>as it was sealed, see above</td><td>2</td>",
    );
    assertStringIncludes(report, "<td>2026-03-01</td><td>as it was sealed</td><td>1249</td>");
  });

  it("is not left half when it is cancelled, and is made after a lost answer", async () => {
    const { view, page } = await openProof();
    let isHeld = true;
    await page.route("**/rpc/read_audit_log", async (route) => {
      if (!route.request().postData()?.includes('"page_offset":1000')) {
        return await route.continue();
      }
      if (isHeld) return;
      isHeld = true;
      await route.abort();
      await page.unroute("**/rpc/read_audit_log");
    });
    const readFile = await storeFiles(page);
    const size = async () => (await readFile("evidence_2026-03.zip")).length;
    await view.press("Make the pack");
    await page.locator("[role=progressbar]:not([aria-valuenow='0'])").waitFor();
    await view.press("Cancel");
    await page.getByRole("progressbar").waitFor({ state: "hidden" });
    assertEquals(await size(), 0);
    assertEquals(await page.getByRole("alert").count(), 0);
    isHeld = false;
    await view.press("Make the pack");
    await page.getByRole("status").getByText("Intact inside, not yet proven", { exact: true })
      .waitFor();
    assert(await size() > 10_000);
    assertEquals(view.complaints, []);
  });

  it("of more entries than the browser can keep is refused before it begins, with another way", async () => {
    const { view, page } = await openProof();
    await page.route(
      "**/rpc/daily_entry_counts",
      (route) => route.fulfill({ json: { items: [{ day: "2026-02-01", entries: 500_001 }] } }),
    );
    await page.evaluate("window.showSaveFilePicker = undefined");
    await page.getByLabel("Month").fill("2026-02");
    await view.shows("500,000 entries is the most");
    assert(await view.button("Make the pack").isDisabled());
  });

  it("is judged without a sign-in as each case of seals/cases says", async () => {
    const { page } = await openCheck();
    for (const name of Array.from(Deno.readDirSync(CASES), ({ name }) => name).sort()) {
      const { kept, right, wrong, why } = JSON.parse(
        Deno.readTextFileSync(`${CASES}${name}/expected.json`),
      );
      await check(page, await newZip(name, caseFiles(name)), kept);
      await page.getByText(`${name}.zip`).waitFor();
      const titles = /^(Proven|Proven in part|Not as it was sealed|Nothing verified)$/;
      const title = await page.getByText(titles).innerText();
      assertEquals(title.startsWith("Proven"), right, `${name}: ${why}`);
      const [first = ""] = await page.getByRole("listitem").allInnerTexts();
      assertEquals(title === "Nothing verified", first.endsWith("nothing was verified"));
      if (wrong) assert(new RegExp(`^((The )?[Ss]eal )?${wrong}\\b`).test(first), first);
    }
  });

  it("is refused when somebody made it to do harm, and the page lives", async () => {
    const view = await openCheck();
    const good = caseFiles("good");
    const hostile: [string, string, string][] = [
      ["names", `${good}\nz.writestr("../x", "x")`, "Get it again"],
      [
        "others",
        `${good}\nz.writestr("days/run\\u202e.exe", "x")`,
        "does not belong: days/run\\u202e.exe",
      ],
      [
        "two names",
        `${good}
name, other = b"report.html", b"days/2026-03-01.ndjson"
info = zipfile.ZipInfo(name.decode())
info.extra = struct.pack("<HHBI", 0x7075, 5 + len(other), 1, zlib.crc32(name)) + other
z.writestr(info, "x")`,
        "a file with two names",
      ],
      ["hidden", `${good}\nz.writestr("x", "x")\nz.filelist.pop()`, "bytes between its files"],
      ["twice", `${good}\n${good}`, "Get it again"],
      ["bomb", `z.writestr("days/2026-03-01.ndjson", b"\\n" * 300_000_000)`, "is larger than any"],
      ["many", `for n in range(200): z.mkdir("days/")`, "more than 100 files"],
      ["nothing", "pass", "Its seals.json is missing"],
    ];
    for (const [name, commands, message] of hostile) {
      await check(view.page, await newZip(name, commands));
      assertStringIncludes(await view.page.getByRole("alert").innerText(), message);
    }
    await Deno.writeTextFile(`${FOLDER}/text.zip`, "no ZIP".repeat(1_000));
    await check(view.page, `${FOLDER}/text.zip`);
    await view.shows("This is not an evidence pack, or it is damaged.");
    // The seals of another organization: the kept seal is not in them.
    const { kept } = JSON.parse(await Deno.readTextFile(`${CASES}good/expected.json`));
    await check(view.page, await newZip("foreign", caseFiles("good", "made-anew")), kept);
    await view.shows("is not the one that you kept");
    assertEquals(view.complaints, []);
  });
});
