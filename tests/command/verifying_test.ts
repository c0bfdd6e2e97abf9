// Needs a stack. Slow.

import { assert, assertEquals, assertMatch } from "@std/assert";
import { it } from "@std/testing/bdd";
import { splitPage } from "../../supabase/functions/_shared/entry_lines.ts";
import { ALL_DAYS, AUDIT_LOG_URL, checkSeals, getSeals, insertEntries } from "../helpers/cli.ts";
import { installCli, mustRun, newFolder, newLog, type Organization } from "../helpers/cli.ts";
import { readDay, runProgram, runRecipes, runUpkeep, silently, sql } from "../helpers/cli.ts";
import { startCli, UNKNOWN_TOKEN, unpackRecipes, withKey } from "../helpers/cli.ts";

const INSTALLED = await installCli();
const PATH = `${INSTALLED}/node_modules/.bin:${Deno.env.get("PATH")}`;
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

  async fetch(...days: string[]): Promise<void> {
    for (const day of days) Deno.writeTextFileSync(this.file(day), await readDay(this.token, day));
  }

  /** Saves some seals of now. Returns the option to check against them. */
  async saveSeals(limit = 1000): Promise<string> {
    const page = await getSeals(this.token, `${ALL_DAYS}&limit=${limit}`);
    await Deno.writeTextFile(`${this.folder}.json`, JSON.stringify(page));
    return `--seals=${this.folder}.json`;
  }

  /** Runs the command, and checks its exit code and its first lines. With saved seals, it has no API to ask. */
  async verify(code: number, messages: RegExp[], ...options: string[]): Promise<string[]> {
    const isOffline = options.some((option) => option.startsWith("--seals"));
    const args = ["verify", this.folder, ...options];
    const how = isOffline ? { url: "" } : { key: this.token };
    const ended = await startCli(INSTALLED, args, how).output;
    const output = `${ended.stdout}${ended.stderr}`.trimEnd();
    assertEquals(ended.code, code, output);
    const lines = output.split("\n");
    for (const [n, message] of messages.entries()) assertMatch(lines[n] ?? "", message);
    return lines;
  }
}

async function newExport(): Promise<Export> {
  const { id, token } = await newSealedLog();
  const exported = new Export(id, token);
  await exported.fetch(...DAYS);
  return exported;
}

it("docs/verifying.md has commands that all run, find what was changed, and agree with the command", async () => {
  const { token } = await newSealedLog();
  const { outputs, outputOf } = await runRecipes(
    { PATH, AUDIT_LOG_URL, AUDIT_LOG_API_KEY: token, NO_COLOR: "1" },
    "verifying.md",
  );
  assertMatch(
    outputOf("--days=days"),
    /^2 sealed days are in days, 2 of them new\n3:[0-9a-f]{64}$/,
  );
  const [ofFile = "", ofSeal] = outputOf("split -a").split("\n");
  assertMatch(ofFile, /^1201 [0-9a-f]{64}$/);
  assertEquals(ofFile, ofSeal);
  assertMatch(outputOf("seals.json > chain"), /^3\nhas the seal that was saved: 3$/);
  const expected = [
    /^Other sealed days, which are not asked for: 1\nAll is as it was sealed/,
    /^2026-11-20 differs from seal 3: [^]*exit code 4$/,
  ];
  const verified = outputs.filter((text) => /Save this|problem/.test(text));
  assertEquals(verified.length, expected.length, verified.join("\n"));
  for (const [n, output] of verified.entries()) assertMatch(output, expected[n] ?? /^$/);
});

it("docs/verifying.md has a command that prints the entries that the days do not have, and never says that it has those of a missing file", async () => {
  const folder = newFolder();
  const recipes = await unpackRecipes(folder, "verifying.md");
  const command = recipes.find((recipe) => recipe.includes("- case.ndjson"));
  const [one, two] = [1, 2].map((n) => `{"id":"${n}"}\n`);
  await Deno.mkdir(`${folder}/days`);
  await Deno.writeTextFile(`${folder}/days/2026-11-20.ndjson`, `${one}{"id":"3"}\n`);
  const found: string[] = [];
  for (const text of [undefined, one, `${one}${two}`]) {
    if (text) await Deno.writeTextFile(`${folder}/case.ndjson`, text);
    const { stdout } = await runProgram("bash", { args: ["-c", command ?? ""], cwd: folder });
    found.push(stdout);
  }
  assertEquals(found, ["", "The days have them all.\n", two]);
});

// tests/seals/seal_cases_test.ts has each way to change files and seals.
it("public-audit-log verify finds a log as it was sealed, from the API or from saved answers, and says what it does not prove", async () => {
  const exported = await newExport();
  const [consistent = ""] = await exported.verify(0, [/^Consistent: /]);
  const saved = `--saved=${consistent.match(/Save this: (\d+:[0-9a-f]{64})$/)?.[1]}`;
  for (const source of [[], [await exported.saveSeals()]]) {
    const [line, ...others] = await exported.verify(0, [], saved, ...source);
    const proof = "The chain has the seal that you saved";
    assertEquals(line, `All is as it was sealed. ${proof}. Save this: ${saved.slice(8)}`);
    assertEquals(others, []);
  }
  const today = "2026-11-21";
  await exported.fetch("2026-11-17");
  const entry =
    `{"id":"${crypto.randomUUID()}","created_at":"${today}T12:00:00.000Z","action":"x"}`;
  await Deno.writeTextFile(exported.file(today), `${entry}\n`);
  const open = /^2026-11-21 is not sealed yet: nothing is proven about it$/;
  await exported.verify(0, [open, /^Consistent: .* Without --saved, that is all this shows/]);
});

it("public-audit-log verify names each sealed day that is not here, from the first to the last that is, or from --start to --end", async () => {
  const exported = await newExport();
  Deno.removeSync(exported.file("2026-11-19"));
  await exported.verify(4, [/^Sealed days that are not here: 2026-11-19$/]);
  Deno.removeSync(exported.file("2026-11-18"));
  const whole = ["--start=2026-11-18", "--end=2026-11-20"];
  await exported.verify(4, [/ not here: 2026-11-18, 2026-11-19$/], ...whole);
  const open =
    /^The last sealed day is 2026-11-20: later days have no entries, or are not sealed yet$/;
  await exported.verify(0, [open], "--start=2026-11-20", "--end=2026-11-30");
});

it("public-audit-log verify leaves no entry in the folder for temporary files if it is stopped", async () => {
  const exported = await newExport();
  const [temporary, pipe] = [newFolder(), `${newFolder()}/entries`];
  await mustRun(runProgram("mkfifo", { args: [pipe] }));
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    const args = ["verify", pipe, await exported.saveSeals()];
    const running = startCli(INSTALLED, args, { env: { TMPDIR: temporary } });
    // Opens as soon as the command reads it.
    using _writer = await Deno.open(pipe, { write: true });
    assertEquals([...Deno.readDirSync(temporary)].length, 1);
    running.process.kill(signal);
    await running.output;
    assertEquals((await running.process.status).signal, signal);
    assertEquals([...Deno.readDirSync(temporary)], [], signal);
  }
});

it("public-audit-log verify proves days by the seals that arrived with the entries, at a webhook or in a bucket, and nothing is kept by hand", async () => {
  const exported = await newExport();
  const { folder, token } = exported;
  const answer = await fetch(`${AUDIT_LOG_URL}/seals?${ALL_DAYS}`, withKey(token));
  const { lines } = splitPage(await answer.text());
  const put = (file: string, ...lines: string[]) =>
    Deno.writeTextFile(`${folder}/${file}`, lines.map((line) => `${line}\n`).join(""));
  const verify = async (url?: string) => {
    const options = { key: token, ...url !== undefined && { url } };
    const { code, stdout } = await startCli(INSTALLED, ["verify", folder, "--json"], options)
      .output;
    const { days, problems, notes } = JSON.parse(stdout);
    return { code, days, codes: [...problems, ...notes].map(({ code }) => code) };
  };
  const stateOf = (state: string) => Object.fromEntries(DAYS.map((day) => [day, state]));
  assertEquals((await verify()).days, stateOf("sealed"));
  // Each is there twice, and one is the entry of a test.
  await Deno.mkdir(`${folder}/seals`);
  await put("seals/000000000003-0.ndjson", ...lines);
  await put("msg_1.ndjson", ...lines.slice(1));
  const [entry = ""] = Deno.readTextFileSync(exported.file("2026-11-18")).split("\n");
  await put("msg_2.ndjson", entry.replace(/"action":"[^"]*"/, '"action":"audit_log_test"'));
  const codes = ["tests_dropped"];
  assertEquals(await verify(), { code: 0, days: stateOf("proven"), codes });
  // Offline, somebody may have made up entries and seals alike.
  assertEquals(await verify(""), { code: 0, days: stateOf("sealed"), codes });
  const alone = await startCli(INSTALLED, ["verify", folder], { url: "" }).output;
  assertMatch(alone.stdout, /^Test .*\nConsistent: .* Without --saved, that is all this shows/);
  const offline = ["verify", folder, await exported.saveSeals(), "--json"];
  const first = `--saved=1:${JSON.parse(lines[0] ?? "").seal}`;
  for (const saved of [[], [first]]) {
    const { stdout } = await startCli(INSTALLED, [...offline, ...saved], { url: "" }).output;
    const { days } = JSON.parse(stdout);
    const states = [saved.length > 0 ? "proven" : "sealed", "sealed"];
    assertEquals([days["2026-11-18"], days["2026-11-20"]], states);
  }
  await exported.verify(0, [
    /^Test entries of a stream that were dropped: 1$/,
    /^All is .* Proven by the seals that arrived .*: 3\./,
  ]);
  // An earlier seal that is not in the chain, although the latest one is: the chain was rewritten since.
  await put("msg_1.ndjson", (lines[0] ?? "").replace(/"seal" : "..../, '"seal" : "0000'));
  for (const [url, code] of [[undefined, "saved_seal_differs"], ["", "seals_missing"]] as const) {
    const { code: exit, codes } = await verify(url);
    assertEquals(exit, 4);
    assert(codes.includes(code), codes.join());
  }
});

it("public-audit-log verify finds in a whole export, even if it is given twice, a day that was deleted silently", async () => {
  const { id, token: key } = await newSealedLog();
  const verify = async () => {
    const file = `${newFolder()}/audit-log.ndjson`;
    await startCli(INSTALLED, ["export", `--out=${file}`], { key }).output;
    const args = ["verify", file, file, "--start=0001-01-01"];
    const { code, stdout } = await startCli(INSTALLED, args, { key }).output;
    return [code, stdout.match(/^Consistent|^Sealed days that .*/m)?.[0]];
  };
  assertEquals(await verify(), [0, "Consistent"]);
  await silently((transaction) =>
    transaction`delete from audit_log.audit_entries where organization_id = ${id} and created_at < '2026-11-19'`
  );
  assertEquals(await verify(), [4, "Sealed days that are not here: 2026-11-18"]);
});

it("public-audit-log verify says which day the service has found altered, and when it was sealed", async () => {
  const exported = await newExport();
  await silently((transaction) =>
    transaction`
      update audit_log.audit_entries set user_email = 'eve@example.com'
      where organization_id = ${exported.id} and created_at < '2026-11-19'`
  );
  await checkSeals(sql, exported.id);
  const altered = /^The service reports 2026-11-18 as altered: .* since 20/;
  await exported.verify(4, [altered]);
  // The day as it is now is not what was sealed.
  await insertEntries(sql, exported.id, "2026-11-18", 1);
  await exported.fetch("2026-11-18");
  const differs = /^2026-11-18 differs from seal 1: 2 .*, here are 3; the log itself was/;
  await exported.verify(4, [altered, differs]);
});

it("public-audit-log verify has exit codes for wrong arguments and for a key that is refused, and misses the last of saved seals", async () => {
  const { id, token } = await newSealedLog();
  const refused = new Export(id, UNKNOWN_TOKEN);
  const cases: [option: string, code: number, message: RegExp][] = [
    ["--saved=1", 2, /^--saved must be /],
    ["--start=2026-11-1", 2, /^--start and --end must be days/],
    ["--folder=x", 2, /^Unknown option/],
    [`--saved=1:${"0".repeat(64)}`, 3, /^The API refuses the key/],
  ];
  for (const [option, code, message] of cases) await refused.verify(code, [message], option);
  const short = new Export(id, token);
  await short.verify(2, [/^There are 2 of 3 seals: give --seals/], await short.saveSeals(2));
});
