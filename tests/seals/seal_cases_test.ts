// Needs nothing.

import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { verify } from "../../cli/verify.ts";
import { type Finding, NOTES, PROBLEMS } from "../../cli/seals/findings.ts";
import type { SealsPage } from "../../cli/seals/judge.ts";
import { DayHasher, sealOf } from "../../cli/seals/seal_chain.ts";
import { runDeno, runProgram } from "../helpers/run_program.ts";

const CASES = fileURLToPath(new URL("../../cli/seals/cases/", import.meta.url));
const CLI = fileURLToPath(new URL("../../cli/main.ts", import.meta.url));

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

async function readSeals(name: string): Promise<SealsPage> {
  return JSON.parse(await Deno.readTextFile(`${CASES}${name}/seals.json`));
}

/** The commands of docs/verifying.md that check the seals, and then the file of each day as the page says. */
async function commands(): Promise<string> {
  const text = await Deno.readTextFile(new URL("../../docs/verifying.md", import.meta.url));
  const blocks = Array.from(text.matchAll(/```sh\n([^]*?)```/g), ([, block = ""]) => block);
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

const COMMANDS = await commands();

describe("a verifier judges", () => {
  for (const name of Array.from(Deno.readDirSync(CASES), ({ name }) => name).sort()) {
    const folder = CASES + name;
    const expected: Expected = JSON.parse(Deno.readTextFileSync(`${folder}/expected.json`));
    const { saved, right, wrong, codes = [], why } = expected;

    it(`${name} as the case says: public-audit-log verify`, async () => {
      const found = await verify({ files: [folder], seals: [`${folder}/seals.json`], saved });
      const { problems: [first], problems } = found;
      assertEquals(found.right, right, `${why}\n${JSON.stringify(found)}`);
      assertEquals(problems.map(({ code }) => code), codes);
      assertEquals(typeof wrong === "string" ? first?.day : first?.sequence, wrong);
      // The sentence says the same to people.
      if (first && wrong) assertMatch(first.text, new RegExp(`^((The )?[Ss]eal )?${wrong}\\b`));
    });

    it(`${name} as the case says: the commands of docs/verifying.md`, async () => {
      const { stdout, stderr } = await runProgram("bash", {
        args: ["-c", COMMANDS],
        cwd: folder,
        env: { SAVED: saved },
      });
      await Deno.remove(`${folder}/chain`);
      const all = `${JSON.parse(Deno.readTextFileSync(`${folder}/seals.json`)).items.length}`;
      const well = `${all}\nhas the seal that was saved: ${saved.split(":")[0]}\n`;
      const retaining = name === "retention-at-work";
      if (right && !retaining) assertEquals([stdout, stderr], [well, ""], why);
      else assert(stdout !== well, why);
      if (typeof wrong === "string") assertStringIncludes(stdout, `differs: ${wrong}`);
    });
  }

  it("no seals with values of another kind, as escapes that would write on a terminal, or numbers in quotes", async () => {
    const page = await readSeals("good");
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

  it("with a code for all that it finds, which docs/verifying.md explains", async () => {
    const names = Array.from(Deno.readDirSync(CASES), ({ name }) => name);
    const others = newFile("");
    const [good] = Deno.readTextFileSync(`${CASES}good/2026-03-03.ndjson`).split("\n");
    const later = `${good}`.replace("2026-03-03", "2026-03-09");
    const test = `${good}`.replace(/"action":"[^"]*"/, '"action":"audit_log_test"');
    Deno.writeTextFileSync(others, `${good}\n${good}\n${later}\n${test}\n`);
    const altered = { ...await readSeals("good"), altered: ["2026-03-03"] };
    const seals = [newFile(JSON.stringify(altered))];
    const found = await Promise.all([
      ...names.map((name) =>
        verify({
          files: [`${CASES}${name}`],
          seals: [`${CASES}${name}/seals.json`],
          saved: JSON.parse(Deno.readTextFileSync(`${CASES}${name}/expected.json`)).saved,
        })
      ),
      verify({ files: [others, newFile("")], seals }),
      verify({ files: [others], seals, start: "2026-03-01", end: "2026-03-31" }),
    ]);
    const codesOf = (all: Finding[]) => new Set(all.map(({ code }) => code));
    const codes: string[] = [...PROBLEMS, ...NOTES];
    assertEquals(codesOf(found.flatMap(({ problems }) => problems)), new Set(PROBLEMS));
    assertEquals(codesOf(found.flatMap(({ notes }) => notes)), new Set(NOTES));
    assertEquals(found.at(-1)?.days["2026-03-01"], "missing");
    const page = await Deno.readTextFile(new URL("../../docs/verifying.md", import.meta.url));
    const rows = page.match(/^\|( `\w+_\w+`,?)+ +\|/gm) ?? [];
    const explained = rows.flatMap((row) => row.match(/\w+/g) ?? []);
    assertEquals(explained.toSorted(), codes.toSorted());
  });

  it("nothing as right, however it is given, even if the chain has the saved seal: there must be an entry of a sealed day", async () => {
    const good = `${CASES}good`;
    const { saved } = JSON.parse(Deno.readTextFileSync(`${good}/expected.json`));
    const seals = [`${good}/seals.json`];
    const [line = ""] = Deno.readTextFileSync(`${good}/2026-03-03.ndjson`).split("\n");
    const folder = await Deno.makeTempDir({ dir: FOLDER });
    const zipped = `${FOLDER}/empty.ndjson.gz`;
    Deno.writeFileSync(zipped, gzipSync(""));
    for (const name of ["1.ndjson", "2026-04-01.ndjson"]) {
      Deno.writeTextFileSync(`${folder}/${name}`, "");
    }
    const noSeals = { ...await readSeals("good"), total: 0, items: [] };
    const cases: [given: Partial<Parameters<typeof verify>[0]>, text: string][] = [
      ...["/dev/null", newFile(""), newFile("\ufeff"), zipped, folder].map((file) =>
        [{ files: [file] }, "There is no entry here"] as [object, string]
      ),
      [{ files: [newFile(line.replace("-03-03", "-03-09"))] }, "No entry here is of a sealed day"],
      [{ files: [good], start: "2026-02-01", end: "2026-02-28" }, "No entry here is of a sealed"],
      [{ files: [good], seals: [newFile(JSON.stringify(noSeals))] }, "There are no seals yet"],
    ];
    for (const [given, text] of cases) {
      for (const seal of given.seals ? [undefined] : [saved, undefined]) {
        const found = await verify({ files: [], seals, saved: seal, ...given });
        assertEquals(found.problems.map(({ code }) => code), ["nothing_verified"]);
        assertStringIncludes(found.problems[0]?.text ?? "", text);
        assertEquals(found.right, false);
      }
    }
    for (const size of [10, 0]) {
      Deno.truncateSync(zipped, size);
      await assertRejects(() => verify({ files: [zipped], seals }), Error, "gzip file");
    }
  });

  it("a file that begins with a byte order mark, or names entries that another program rewrote", async () => {
    const seals = [`${CASES}rewritten/seals.json`];
    const [first, second] = ["2026-03-01", "2026-03-02"].map((day) =>
      Deno.readTextFileSync(`${CASES}rewritten/${day}.ndjson`)
    );
    assertEquals((await verify({ files: [newFile(`\ufeff${first}`)], seals })).right, true);
    const hasher = new DayHasher();
    for (const byte of new TextEncoder().encode(`\ufeff${first}`)) {
      await hasher.add(new Uint8Array([byte]));
    }
    const [seal] = (await readSeals("rewritten")).items;
    assertEquals((await hasher.end()).sha256, seal?.sha256);
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

  it("a folder of somebody else: no name in it forges a line or moves the cursor, and no pipe is waited for", async () => {
    const folder = Deno.makeTempDirSync({ dir: FOLDER });
    Deno.copyFileSync(`${CASES}good/2026-03-01.ndjson`, `${folder}/2026-03-01.ndjson`);
    Deno.mkdirSync(`${folder}/2026-03-02.ndjson`);
    await runProgram("mkfifo", { args: [`${folder}/2026-03-03.ndjson`] });
    Deno.symlinkSync(`${folder}/2026-03-03.ndjson`, `${folder}/2026-03-04.ndjson`);
    Deno.symlinkSync("/dev/zero", `${folder}/2026-03-05.ndjson`);
    const seals = [`${CASES}good/seals.json`];
    // As a process, which ends also if it waits.
    const args = ["run", "--allow-all", CLI, "verify", folder, `--seals=${seals}`];
    const { code } = await runDeno({ args, signal: AbortSignal.timeout(30_000) });
    assertEquals(code, 0);
    const name = "\x1b[2K\nAll is as it was sealed\u202e.ndjson";
    Deno.writeTextFileSync(`${folder}/${name}`, "");
    const shown = String.raw`\u001b[2K\u000aAll is as it was sealed\u202e.ndjson`;
    await assertRejects(() => verify({ files: [folder], seals }), Error, shown);
  });

  it("a day of any size and order, with repeats, in a bounded memory", async () => {
    const lines = Array.from({ length: 100_000 }, (_, n) => {
      const time = new Date(Date.UTC(2026, 2, 1) + n * 800).toISOString();
      const id = `00000000-0000-4000-8000-${`${n}`.padStart(12, "0")}`;
      return `{"id":"${id}","created_at":"${time}","action":"x","user_email":"a@example.com",` +
        `"agent_name":"${"x".repeat(500)}","data":{}}\n`;
    });
    const hasher = new DayHasher();
    await hasher.add(new TextEncoder().encode(lines.join("")));
    const { items: [first], ...page } = await readSeals("good");
    const seal = { ...first!, ...await hasher.end() };
    seal.seal = await sealOf(seal);
    const seals = newFile(JSON.stringify({ ...page, total: 1, items: [seal] }));
    const folder = Deno.makeTempDirSync({ dir: FOLDER });
    const given = [...lines.toReversed(), ...lines.slice(0, 1000), ...lines.slice(-1000)];
    // The unpacked file has 66 MB. Its lines end as on Windows.
    const text = given.join("").replaceAll("\n", "\r\n");
    Deno.writeFileSync(`${folder}/large.ndjson.gz`, gzipSync(text));
    const flags = ["run", "--allow-all", "--v8-flags=--max-old-space-size=60"];
    const { stdout, stderr } = await runDeno({
      args: [...flags, CLI, "verify", folder, `--seals=${seals}`],
    });
    assertMatch(stdout, /^Repeated entries that were dropped: 2000\nConsistent: /, stderr);
  });

  it("the bytes of a file: U+2028 in an entry ends no line, and no other byte stands for U+FFFD", async () => {
    const { items: [first], ...page } = await readSeals("good");
    const [line = ""] = Deno.readTextFileSync(`${CASES}good/2026-03-01.ndjson`).split("\n");
    const bytes = new TextEncoder().encode(`${line.replace("Clerk", "\u2028\ufffd")}\n`);
    const hasher = new DayHasher();
    await hasher.add(bytes);
    const seal = { ...first!, ...await hasher.end() };
    seal.seal = await sealOf(seal);
    const seals = [newFile(JSON.stringify({ ...page, total: 1, items: [seal] }))];
    const check = async (...pieces: BlobPart[]) =>
      await verify({ files: [newFile(await new Blob(pieces).bytes())], seals });
    assertEquals((await check(bytes)).right, true);
    assertEquals((await check(bytes.slice(0, -1), " \n")).right, false);
    const at = bytes.indexOf(0xef);
    const other = check(bytes.slice(0, at), new Uint8Array([0xff]), bytes.slice(at + 3));
    await assertRejects(() => other, Error, "is not in UTF-8");
  });
});
