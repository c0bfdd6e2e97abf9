// Needs nothing.

import { assertEquals, assertMatch, assertNotEquals, assertRejects } from "@std/assert";
import { assertStringIncludes, assertThrows } from "@std/assert";
import { afterAll, it } from "@std/testing/bdd";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { verify } from "../../cli/verify.ts";
import { type Finding, NOTES, PROBLEMS } from "../../cli/seals/findings.ts";
import type { SealsPage } from "../../cli/seals/judge.ts";
import { DayHasher, sealOf } from "../../cli/seals/seal_chain.ts";
import { DaySorter } from "../../cli/sort_days.ts";
import { runDeno, runProgram } from "../helpers/run_program.ts";

const CASES = fileURLToPath(new URL("../../cli/seals/cases/", import.meta.url));
const NAMES = Array.from(Deno.readDirSync(CASES), ({ name }) => name).sort();
const VERIFY = ["run", "--allow-all", fileURLToPath(new URL("../../cli/main.ts", import.meta.url))];
const PAGE = await Deno.readTextFile(new URL("../../docs/verifying.md", import.meta.url));

interface Expected {
  saved: string;
  right: boolean;
  /** The sequence of the first seal, or else the first day, that is wrong. */
  wrong?: number | string;
  /** The code of each problem. */
  codes?: string[];
  why: string;
}

const FOLDER = await Deno.makeTempDir();
afterAll(() => Deno.remove(FOLDER, { recursive: true }));

function newFile(content: string | Uint8Array): string {
  const path = `${FOLDER}/${crypto.randomUUID()}`;
  const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
  Deno.writeFileSync(path, bytes);
  return path;
}

function read(path: string): string {
  return Deno.readTextFileSync(CASES + path);
}

function readSeals(name: string): SealsPage {
  return JSON.parse(read(`${name}/seals.json`));
}

/** What a verifier is given of a case, and what it should say. */
function caseOf(name: string) {
  const expected: Expected = JSON.parse(read(`${name}/expected.json`));
  return { files: [CASES + name], seals: [`${CASES}${name}/seals.json`], ...expected };
}

/** Writes the seals of a log with one day that has these bytes. */
async function sealBytes(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const { items: [first], ...page } = readSeals("good");
  const hasher = new DayHasher();
  await hasher.add(bytes);
  const seal = { ...first!, ...await hasher.end() };
  seal.seal = await sealOf(seal);
  return newFile(JSON.stringify({ ...page, total: 1, items: [seal] }));
}

/** The commands of docs/verifying.md that check the seals, and then the file of each day as the page says. */
function commands(): string {
  const blocks = Array.from(PAGE.matchAll(/```sh\n([^]*?)```/g), ([, block = ""]) => block);
  const checks = ["seals.json > chain", "reduce .items"].map((part) =>
    blocks.find((block) => block.includes(part))
  );
  const file = blocks.find((block) => block.includes("split -a")) ?? "";
  const [hash = ""] = file.replaceAll("days/2026-11-20.ndjson", '"$day.ndjson"').split("jq");
  // As the page says for a macOS without it.
  return `command -v sha256sum > /dev/null || sha256sum() { shasum -a 256 "$@"; }
${checks.join("\n")}
for day in $(ls *.ndjson | cut -d. -f1); do
  jq -r --arg day $day '.items[] | select(.day == $day) | "\\(.entries) \\(.sha256)"' seals.json |
    grep -q "$(${hash})" ||
    echo "differs: $day"
done`;
}

const COMMANDS = commands();

for (const name of NAMES) {
  const { right, wrong, codes = [], why, ...given } = caseOf(name);

  it(`a verifier judges ${name} as the case says: public-audit-log verify`, async () => {
    const found = await verify(given);
    const { problems: [first], problems } = found;
    assertEquals(found.right, right, `${why}\n${JSON.stringify(found)}`);
    assertEquals(problems.map(({ code }) => code), codes);
    assertEquals(typeof wrong === "string" ? first?.day : first?.sequence, wrong);
    // The sentence says the same to people.
    if (first && wrong) assertMatch(first.text, new RegExp(`^((The )?[Ss]eal )?${wrong}\\b`));
  });

  it(`a verifier judges ${name} as the case says: the commands of docs/verifying.md`, async () => {
    const { stdout, stderr } = await runProgram("bash", {
      args: ["-c", COMMANDS],
      cwd: CASES + name,
      env: { SAVED: given.saved },
    });
    await Deno.remove(`${CASES}${name}/chain`);
    const all = readSeals(name).items.length;
    const well = `${all}\nhas the seal that was saved: ${given.saved.split(":")[0]}\n`;
    const retaining = name === "retention-at-work";
    if (right && !retaining) assertEquals([stdout, stderr], [well, ""], why);
    else assertNotEquals(stdout, well, why);
    if (typeof wrong === "string") assertStringIncludes(stdout, `differs: ${wrong}`);
  });
}

it("a verifier judges no seals with values of another kind, as escapes that would write on a terminal, or numbers in quotes", async () => {
  const page = readSeals("good");
  const [first, ...others] = page.items;
  const wrongs = [
    { altered: ["\x1b[2K\x1b[1GAll is as it was sealed."] },
    { items: [{ ...first, entries: `${first?.entries}` }, ...others] },
    { items: [{ ...first, sealed_at: "2026-99-99T00:00:00.000Z" }, ...others] },
  ];
  for (const wrong of wrongs) {
    const seals = [newFile(JSON.stringify({ ...page, ...wrong }))];
    const verified = verify({ files: [`${CASES}good`], seals });
    await assertRejects(() => verified, Error, "The seals are not what …/seals answers");
  }
});

it("a verifier judges with a code for all that it finds, which docs/verifying.md explains", async () => {
  const [good = ""] = read("good/2026-03-03.ndjson").split("\n");
  const later = good.replace("2026-03-03", "2026-03-09");
  const test = good.replace(/"action":"[^"]*"/, '"action":"audit_log_test"');
  const others = newFile(`${good}\n${good}\n${later}\n${test}\n`);
  const altered = { ...readSeals("good"), altered: ["2026-03-03"] };
  const seals = [newFile(JSON.stringify(altered))];
  const found = await Promise.all([
    ...NAMES.map((name) => verify(caseOf(name))),
    verify({ files: [others, newFile("")], seals }),
    verify({ files: [others], seals, start: "2026-03-01", end: "2026-03-31" }),
  ]);
  const codesOf = (all: Finding[]) => new Set(all.map(({ code }) => code));
  const codes: string[] = [...PROBLEMS, ...NOTES];
  assertEquals(codesOf(found.flatMap(({ problems }) => problems)), new Set(PROBLEMS));
  assertEquals(codesOf(found.flatMap(({ notes }) => notes)), new Set(NOTES));
  assertEquals(found.at(-1)?.days["2026-03-01"], "missing");
  const rows = PAGE.match(/^\|( `\w+_\w+`,?)+ +\|/gm) ?? [];
  const explained = rows.flatMap((row) => row.match(/\w+/g) ?? []);
  assertEquals(explained.toSorted(), codes.toSorted());
});

it("a verifier judges nothing as right, however it is given, even if the chain has the saved seal: there must be an entry of a sealed day", async () => {
  const { files, seals, saved } = caseOf("good");
  const [line = ""] = read("good/2026-03-03.ndjson").split("\n");
  const folder = await Deno.makeTempDir({ dir: FOLDER });
  const zipped = `${FOLDER}/empty.ndjson.gz`;
  Deno.writeFileSync(zipped, gzipSync(""));
  for (const name of ["1.ndjson", "2026-04-01.ndjson"]) {
    Deno.writeTextFileSync(`${folder}/${name}`, "");
  }
  const noSeals = { ...readSeals("good"), total: 0, items: [] };
  const february = { start: "2026-02-01", end: "2026-02-28" };
  const cases: [given: Partial<Parameters<typeof verify>[0]>, text: RegExp][] = [
    [{ files: ["/dev/null"] }, /There is no entry here/],
    [{ files: [newFile("")] }, /There is no entry here/],
    [{ files: [newFile("\ufeff")] }, /There is no entry here/],
    [{ files: [zipped] }, /There is no entry here/],
    [{ files: [folder] }, /There is no entry here/],
    [{ files: [newFile(line.replace("-03-03", "-03-09"))] }, /No entry here is of a sealed day/],
    [february, /No entry here is of a sealed/],
    [{ seals: [newFile(JSON.stringify(noSeals))] }, /There are no seals yet/],
  ];
  for (const [given, text] of cases) {
    for (const seal of given.seals ? [undefined] : [saved, undefined]) {
      const { right, problems } = await verify({ files, seals, saved: seal, ...given });
      assertEquals([right, problems.map(({ code }) => code)], [false, ["nothing_verified"]]);
      assertMatch(problems[0]?.text ?? "", text);
    }
  }
  for (const size of [10, 0]) {
    Deno.truncateSync(zipped, size);
    await assertRejects(() => verify({ files: [zipped], seals }), Error, "gzip file");
  }
});

it("a verifier judges no line as a seal or a test of a stream that another program reads as an entry", async () => {
  const { files, seals, saved } = caseOf("good");
  const [entry = ""] = read("good/2026-03-03.ndjson").split("\n");
  const test = entry.replace(/"action":"[^"]*"/, '"action":"audit_log_test"');
  const seal = JSON.stringify(readSeals("good").items[0]);
  const check = (...lines: string[]) =>
    verify({ files: [...files, newFile(`${lines.join("\n")}\n`)], seals, saved });
  assertEquals((await check(seal, test)).right, true);
  const forged = entry.replace(/"user_email":"[^"]*"/, '"user_email":"mallory@example.com"');
  const twice = forged.replace('"action"', '"action":"audit_log_test","action"');
  // Go's parser takes capitals, too.
  const inCapitals = test.replace('"data"', '"Action":"agent_added","data"');
  for (const line of [twice, inCapitals, `${test}${forged}`, `${test},${forged}`]) {
    const { right, problems } = await check(line);
    assertEquals([right, problems.map(({ code }) => code)], [false, ["day_differs"]], line);
  }
  for (const [name, value] of Object.entries(JSON.parse(forged))) {
    for (const written of [name, name.toUpperCase()]) {
      const line = JSON.stringify({ ...JSON.parse(seal), [written]: value });
      await assertRejects(() => check(line), Error, "line 1: ", line);
    }
  }
});

it("a verifier judges a file that begins with a byte order mark, or names entries that another program rewrote", async () => {
  const { seals } = caseOf("rewritten");
  const [first, second] = ["01", "02"].map((day) => read(`rewritten/2026-03-${day}.ndjson`));
  assertEquals((await verify({ files: [newFile(`\ufeff${first}`)], seals })).right, true);
  const hasher = new DayHasher();
  for (const byte of new TextEncoder().encode(`\ufeff${first}`)) {
    await hasher.add(new Uint8Array([byte]));
  }
  assertEquals((await hasher.end()).sha256, readSeals("rewritten").items[0]?.sha256);
  // As jq, Python's json.dumps, and DuckDB with its own kind of time write it.
  const anew = [
    second?.replaceAll('":', '": '),
    second?.replaceAll(/"created_at":"(.{10})T(.{12})Z"/g, '"created_at":"$1 $2"'),
  ];
  for (const text of anew) {
    const found = verify({ files: [newFile(`${first}${text}`)], seals });
    await assertRejects(() => found, Error, "line 5: another program rewrote this entry");
  }
  const other = verify({ files: [newFile(`${first}{"id":1}\n`)], seals });
  await assertRejects(() => other, Error, "line 5: not an entry as the API gives it");
});

it("a verifier judges a folder of somebody else: no name in it forges a line or moves the cursor, and no pipe is waited for", async () => {
  const folder = Deno.makeTempDirSync({ dir: FOLDER });
  Deno.copyFileSync(`${CASES}good/2026-03-01.ndjson`, `${folder}/2026-03-01.ndjson`);
  Deno.mkdirSync(`${folder}/2026-03-02.ndjson`);
  await runProgram("mkfifo", { args: [`${folder}/2026-03-03.ndjson`] });
  Deno.symlinkSync(`${folder}/2026-03-03.ndjson`, `${folder}/2026-03-04.ndjson`);
  Deno.symlinkSync("/dev/zero", `${folder}/2026-03-05.ndjson`);
  const { seals } = caseOf("good");
  // As a process, which ends also if it waits.
  const args = [...VERIFY, "verify", folder, `--seals=${seals}`];
  const { code } = await runDeno({ args, signal: AbortSignal.timeout(30_000) });
  assertEquals(code, 0);
  const name = "\x1b[2K\nAll is as it was sealed\u202e.ndjson";
  Deno.writeTextFileSync(`${folder}/${name}`, "");
  const shown = String.raw`\u001b[2K\u000aAll is as it was sealed\u202e.ndjson`;
  await assertRejects(() => verify({ files: [folder], seals }), Error, shown);
});

it("a verifier judges a day of any size and order, with repeats, in a bounded memory", async () => {
  const lines = Array.from({ length: 100_000 }, (_, n) => {
    const time = new Date(Date.UTC(2026, 2, 1) + n * 800).toISOString();
    const id = `00000000-0000-4000-8000-${`${n}`.padStart(12, "0")}`;
    return `{"id":"${id}","created_at":"${time}","action":"x","user_email":"a@example.com",` +
      `"agent_name":"${"x".repeat(500)}","data":{}}\n`;
  });
  const seals = await sealBytes(new TextEncoder().encode(lines.join("")));
  const folder = Deno.makeTempDirSync({ dir: FOLDER });
  const given = [...lines.toReversed(), ...lines.slice(0, 1000), ...lines.slice(-1000)];
  // The unpacked file has 66 MB. Its lines end as on Windows.
  const text = given.join("").replaceAll("\n", "\r\n");
  Deno.writeFileSync(`${folder}/large.ndjson.gz`, gzipSync(text));
  const [run = "", ...main] = VERIFY;
  const flags = "--v8-flags=--max-old-space-size=60";
  const args = [run, flags, ...main, "verify", folder, `--seals=${seals}`];
  const { stdout, stderr } = await runDeno({ args });
  assertMatch(stdout, /^Repeated entries that were dropped: 2000\nConsistent: /, stderr);
});

it("a verifier judges the bytes of a file: U+2028 in an entry ends no line, and no other byte stands for U+FFFD", async () => {
  const [line = ""] = read("good/2026-03-01.ndjson").split("\n");
  const bytes = new TextEncoder().encode(`${line.replace("Clerk", "\u2028\ufffd")}\n`);
  const seals = [await sealBytes(bytes)];
  const check = async (...pieces: BlobPart[]) =>
    await verify({ files: [newFile(await new Blob(pieces).bytes())], seals });
  assertEquals((await check(bytes)).right, true);
  assertEquals((await check(bytes.slice(0, -1), " \n")).right, false);
  const at = bytes.indexOf(0xef);
  const other = check(bytes.slice(0, at), new Uint8Array([0xff]), bytes.slice(at + 3));
  await assertRejects(() => other, Error, "is not in UTF-8");
});

it("an hour with more entries than memory should hold is refused, and the error says what to do", () => {
  const sorter = new DaySorter();
  try {
    sorter.add("2026-11-20T15", ["x".repeat(256 * 1024 ** 2)]);
    const { message } = assertThrows(() => [...sorter.sorted("2026-11-20")], Error);
    assertMatch(
      message,
      /^2026-11-20T15:00 has more than 256 MB .* compare this day with sha256sum/,
    );
  } finally {
    sorter.end();
  }
});
