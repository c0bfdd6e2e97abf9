import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  ALL_DAYS,
  AUDIT_LOG_URL,
  checkSeals,
  getSeals,
  insertEntries,
  newLog,
  type Organization,
  readDay,
  runUpkeep,
  silently,
  sql,
  UNKNOWN_TOKEN,
  writeEntries,
} from "../helpers.ts";
import { serveOnLoopback } from "../loopback.ts";
import { runProgram } from "../run_program.ts";
import { installCli, mustRun, newFolder } from "./cli.ts";
import { startCli } from "./run_cli.ts";
import { runRecipes } from "./recipes.ts";

const INSTALLED = await installCli();
const PATH = `${INSTALLED}/node_modules/.bin:${Deno.env.get("PATH")}`;
/** A line of an entry that was never written. */
function entryOf(day: string): string {
  return `{"id":"00000000-0000-4000-8000-000000000000","created_at":"${day}T12:00:00.000Z","action":"x"}\n`;
}

const DAYS = ["2026-11-18", "2026-11-19", "2026-11-20"];

/** Makes an organization with sealed days: of less than a block, of one block, and of more. */
async function newSealedLog(): Promise<Organization> {
  const organization = await newLog();
  const given = { user_email: "ada@analytical.example" };
  for (const [n, day] of DAYS.entries()) {
    await insertEntries(sql, organization.id, day, [2, 1000, 1201][n] ?? 0, given);
  }
  await runUpkeep(sql);
  return organization;
}

/** The days of an organization in a folder, for the command to check. */
class Export {
  folder = newFolder();

  constructor(readonly id: string, readonly token: string) {}

  file(day: string): string {
    return `${this.folder}/${day}.ndjson`;
  }

  edit(day: string, change: (text: string) => string): void {
    Deno.writeTextFileSync(this.file(day), change(Deno.readTextFileSync(this.file(day))));
  }

  async fetch(...days: string[]): Promise<void> {
    for (const day of days) Deno.writeTextFileSync(this.file(day), await readDay(this.token, day));
  }

  /** Saves some seals of now. Returns the option to check against them. */
  async saveSeals(limit = 1000): Promise<string> {
    const page = await getSeals(this.token, `${ALL_DAYS}&limit=${limit}`);
    await Deno.writeTextFile(`${this.folder}.json`, JSON.stringify(page));
    return `--seals=${this.folder}.json`;
  }

  /** Runs the command. With saved seals, it has no API to ask. */
  async verify(...options: string[]): Promise<{ code: number; lines: string[] }> {
    const isOffline = options.some((option) => option.startsWith("--seals"));
    const args = ["verify", this.folder, ...options];
    const how = isOffline ? { url: "" } : { key: this.token };
    const { code, stdout, stderr } = await startCli(INSTALLED, args, how).output;
    return { code, lines: `${stdout}${stderr}`.trimEnd().split("\n") };
  }

  /** Runs the command, and returns the seal that its last line says to keep. */
  async keep(): Promise<string> {
    const { code, lines } = await this.verify();
    assertEquals(code, 0, lines.join("\n"));
    return lines.at(-1)?.match(/Keep this: (\d+:[0-9a-f]{64})$/)?.[1] ?? "";
  }

  /** Asserts that the command finds a difference, and that its first line says which. */
  async assertDiffers(message: RegExp, ...options: string[]): Promise<string[]> {
    const { code, lines } = await this.verify(...options);
    assertEquals(code, 4, lines.join("\n"));
    assertMatch(lines[0] ?? "", message);
    return lines;
  }
}

async function newExport(): Promise<Export> {
  const { id, token } = await newSealedLog();
  const exported = new Export(id, token);
  await exported.fetch(...DAYS);
  return exported;
}

/** Makes a certificate that may sign time stamps, and what `openssl ts` needs to sign with it. */
const TIME_STAMPING = `
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out tsa.pem -days 2 -subj /CN=Time \\
  -addext extendedKeyUsage=critical,timeStamping
echo 01 > serial
printf '%s\n' '[own]' 'serial = serial' 'signer_digest = sha256' 'default_policy = 1.2.3.4.1' \\
  'digests = sha256' > tsa.conf`;
const TIME_STAMP = `
openssl ts -reply -config tsa.conf -section own -queryfile query -signer tsa.pem -inkey key.pem -out reply`;

describe("docs/verifying.md", () => {
  it("has commands that all run, find what was changed, and agree with the command", async () => {
    const { token } = await newSealedLog();
    const folder = newFolder();
    const sh = (script: string) =>
      mustRun(runProgram("sh", { args: ["-ec", script], cwd: folder }));
    await sh(TIME_STAMPING);
    await using authority = serveOnLoopback(async (request) => {
      await Deno.writeFile(`${folder}/query`, await request.bytes());
      await sh(TIME_STAMP);
      return new Response(await Deno.readFile(`${folder}/reply`));
    });
    const { outputs, outputOf } = await runRecipes(
      { PATH, AUDIT_LOG_URL, AUDIT_LOG_API_KEY: token, TSA_URL: authority.url, NO_COLOR: "1" },
      "verifying.md",
      { "tsa.pem": Deno.readTextFileSync(`${folder}/tsa.pem`) },
    );
    assertMatch(outputOf("wc -l days"), /\b1201 days\/2026-11-20/);
    const [ofFile, ofSeal] = outputOf("--filter=sha256sum").split("\n");
    assertEquals(ofFile, ofSeal);
    assertMatch(outputOf("seals.json > chain"), /^3\nhas the seal that was kept: 3$/);
    assertMatch(outputOf("-token_out"), /^Verification: OK\nTime stamp: .* GMT$/);
    const expected = [
      /^Sealed days outside 2026-11-19 to 2026-11-20 that are not here: 1\nAll is as it was sealed/,
      /^Sealed days outside 2026-10-01 to 2026-10-31 that are not here: 3\nAll is as it was sealed/,
      /^2026-11-20 differs from seal 3: [^]*exit code 4$/,
    ];
    const verified = outputs.filter((text) => /Keep this|problem/.test(text));
    assertEquals(verified.length, expected.length, verified.join("\n"));
    for (const [n, output] of verified.entries()) assertMatch(output, expected[n] ?? /^$/);
  });

  it("has an export that stops and shows the answer when a request is refused", async () => {
    const environment = { PATH, AUDIT_LOG_URL, AUDIT_LOG_API_KEY: UNKNOWN_TOKEN };
    const { message } = await assertRejects(() => runRecipes(environment, "verifying.md"), Error);
    assertMatch(message, /^failed: # Calls curl [^]*"status":401/);
  });
});

// tests/pure/seal_cases_test.ts has each way to change files and seals.
describe("public-audit-log verify", () => {
  it("finds a log as it was sealed, from the API or from a saved answer, and says what it does not prove", async () => {
    const exported = await newExport();
    const kept = await exported.keep();
    for (const source of [[], [await exported.saveSeals()]]) {
      const { code, lines } = await exported.verify(`--kept=${kept}`, ...source);
      assertEquals(code, 0);
      assertEquals(lines, [
        `All is as it was sealed. The chain has the seal that you kept. Keep this: ${kept}`,
      ]);
    }
    await exported.fetch("2026-11-17", "2026-11-21");
    exported.edit("2026-11-21", () => entryOf("2026-11-21"));
    const { code, lines: [first, second = ""] } = await exported.verify();
    assertEquals([code, first], [0, "2026-11-21 is not sealed yet: nothing is proven of it"]);
    assertStringIncludes(second, "without --kept that is all this shows");
  });

  it("says of entries that came late that they did, until the upkeep has sealed them", async () => {
    const exported = await newExport();
    const times = ["2026-11-17T12:00:00Z", "2026-11-20T12:00:00Z"];
    await writeEntries(exported.id, times.map((created_at) => ({ created_at })));
    await exported.fetch("2026-11-17", "2026-11-20");
    const unsealed =
      /^2026-11-17 has no seal, but 1 entries, .* came late .*next upkeep\), or were put in/;
    const [, more = "", last] = await exported.assertDiffers(unsealed);
    assertMatch(more, /^2026-11-20 differs .* 1201 .* sealed, here are 1202; entries came late/);
    assertEquals(last, "2 problems.");
    await runUpkeep(sql);
    await exported.keep();
  });

  it("names each sealed day that is not here, from the first to the last that is, or from --start to --end", async () => {
    const exported = await newExport();
    Deno.removeSync(exported.file("2026-11-19"));
    await exported.assertDiffers(/^Sealed days that are not here: 2026-11-19$/);
    Deno.removeSync(exported.file("2026-11-18"));
    const whole = ["--start=2026-11-18", "--end=2026-11-20"];
    await exported.assertDiffers(/ not here: 2026-11-18, 2026-11-19$/, ...whole);
    assertEquals((await exported.verify("--start=2026-11-1")).code, 2);
  });

  it("takes what people have: several days in a file, any order, repeats, gzip", async () => {
    const exported = await newExport();
    const kept = await exported.keep();
    const text = DAYS.map((day) => Deno.readTextFileSync(exported.file(day))).join("");
    const shuffled = text.trimEnd().split("\n").reverse().join("\r\n");
    const folder = newFolder();
    await Deno.writeTextFile(`${folder}/bucket.ndjson`, shuffled);
    const [, , last = ""] = DAYS;
    const gzip = new Blob([Deno.readTextFileSync(exported.file(last))]).stream()
      .pipeThrough(new CompressionStream("gzip"));
    await Deno.writeFile(`${folder}/again.ndjson.gz`, gzip);
    exported.folder = folder;
    const { code, lines } = await exported.verify(`--kept=${kept}`);
    assertEquals([code, lines[0]], [0, "Repeated entries that were dropped: 1201"]);
    await Deno.writeTextFile(`${folder}/bucket.ndjson`, `${shuffled}\n{"id":1}`);
    assertMatch((await exported.verify()).lines[0] ?? "", /bucket.ndjson, line 2204: not an entry/);
  });

  it("is done at the end of export --verify", async () => {
    const { id, token } = await newSealedLog();
    const out = `${newFolder()}/audit-log.ndjson`;
    const run = () =>
      startCli(INSTALLED, ["export", `--out=${out}`, "--verify"], { key: token }).output;
    const { code, stdout } = await run();
    assertEquals(code, 0, stdout);
    assertStringIncludes(stdout, "All is as it was sealed");
    await silently((transaction) =>
      transaction`delete from audit_log.audit_entries where organization_id = ${id} and created_at < '2026-11-19'`
    );
    Deno.removeSync(out);
    Deno.removeSync(`${out}.progress`);
    const again = await run();
    assertEquals(again.code, 4);
    assertMatch(again.stdout, /^Sealed days that are not here: 2026-11-18$/m);
  });

  it("accepts declared changes, and says so", async () => {
    const exported = await newExport();
    const kept = await exported.keep();
    await writeEntries(exported.id, [{ created_at: "2026-11-19T23:00:00Z" }]);
    await sql`
      delete from audit_log.audit_entries where organization_id = ${exported.id} and created_at < '2026-11-19'`;
    await runUpkeep(sql);
    const { code, lines } = await exported.verify(`--kept=${kept}`);
    assertEquals([code, lines.length], [0, 5]);
    const declared = [
      /^2026-11-18 was sealed again after the seal that you kept: .* 0 added and 2 removed/,
      /^2026-11-19 was sealed again after the seal that you kept: .* 1 added and 0 removed/,
      /^2026-11-18 is as it was sealed at .* 0 added and 2 removed/,
      /^2026-11-19 is as it was sealed at .* 1 added and 0 removed/,
    ];
    for (const [n, line] of declared.entries()) assertMatch(lines[n] ?? "", line);
    // Also of files that fit the last seals.
    await exported.fetch("2026-11-18", "2026-11-19");
    const again = await exported.verify(`--kept=${kept}`);
    assertEquals([again.code, again.lines.slice(0, 2)], [0, lines.slice(0, 2)]);
  });

  it("says which day the service has found altered, and when it was sealed", async () => {
    const exported = await newExport();
    await silently((transaction) =>
      transaction`
        update audit_log.audit_entries set user_email = 'eve@example.com'
        where organization_id = ${exported.id} and created_at < '2026-11-19'`
    );
    await checkSeals(sql, exported.id);
    const altered = /^The service reports 2026-11-18 as altered: .* since 20/;
    await exported.assertDiffers(altered);
    // The day as it is now is not what was sealed.
    await insertEntries(sql, exported.id, "2026-11-18", 1);
    await exported.fetch("2026-11-18");
    const [, second = ""] = await exported.assertDiffers(altered);
    assertMatch(
      second,
      /^2026-11-18 differs from seal 1: 2 .*, here are 3; the log itself was/,
    );
  });

  it("shows by a kept seal that the database was restored from an older backup", async () => {
    const exported = await newExport();
    const { id } = exported;
    const kept = `--kept=${await exported.keep()}`;
    await silently((transaction) =>
      transaction.unsafe(`
        delete from audit_log_private.seals where organization_id = '${id}' and sequence = 3;
        delete from audit_log_private.sealed_days where organization_id = '${id}' and day = '2026-11-20';
        delete from audit_log.audit_entries where organization_id = '${id}' and created_at >= '2026-11-20'`)
    );
    await exported.assertDiffers(/^The seal 3 that you kept is not there, the last is 2: /, kept);

    // The same after other entries were sealed.
    await writeEntries(id, [{ created_at: "2026-11-20T12:00:00Z" }]);
    await runUpkeep(sql);
    const lines = await exported.assertDiffers(/^Seal 3 .* is not the one that you kept/, kept);
    assert(lines.some((line) => line.startsWith("2026-11-20 differs")));
  });

  it("shows that the owner has deleted one entry, although the upkeep declared it", async () => {
    const exported = await newExport();
    const kept = `--kept=${await exported.keep()}`;
    await sql`
      delete from audit_log.audit_entries
      where organization_id = ${exported.id} and created_at = '2026-11-19'`;
    await runUpkeep(sql);
    await exported.fetch(...DAYS);
    const problem =
      /^Seal 4 declares that 1 entries of 2026-11-19 were removed, but 2026-11-18 still has entries/;
    await exported.assertDiffers(problem, kept);
  });

  it("has exit codes for wrong arguments and for a key that is refused, and misses the last of saved seals", async () => {
    const exported = await newExport();
    const { id, token } = exported;
    const { code, lines } = await exported.verify(await exported.saveSeals(2));
    assertEquals(code, 2);
    assertMatch(lines[0] ?? "", /^There are 2 of 3 seals: give --seals/);
    const cases: [token: string, option: string, code: number, message: RegExp][] = [
      [token, "--kept=1", 2, /^--kept must be /],
      [token, "--folder=x", 2, /^Unknown option/],
      [token, "--keep=1", 2, /^Unknown option/],
      [UNKNOWN_TOKEN, `--kept=1:${"0".repeat(64)}`, 3, /^The API refuses the key/],
    ];
    for (const [token, option, expected, message] of cases) {
      const { code, lines } = await new Export(id, token).verify(option);
      assertEquals(code, expected);
      assertMatch(lines[0] ?? "", message);
    }
  });
});
