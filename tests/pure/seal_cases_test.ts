import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { fileURLToPath } from "node:url";
import { verify } from "../../cli/verify.ts";
import { runProgram } from "../run_program.ts";

const CASES = fileURLToPath(new URL("../../seals/cases/", import.meta.url));

interface Expected {
  kept: string;
  right: boolean;
  /** The sequence of the first seal, or else the first day, that is wrong. */
  wrong?: number | string;
  why: string;
}

/** The commands of docs/verifying.md that check the seals, and then the file of each day as the page says. */
async function commands(): Promise<string> {
  const text = await Deno.readTextFile(new URL("../../docs/verifying.md", import.meta.url));
  const blocks = Array.from(text.matchAll(/```sh\n([^]*?)```/g), ([, block = ""]) => block);
  const checks = ["seals.json > chain", "reduce .items"].map((part) =>
    blocks.find((block) => block.includes(part))
  );
  const file = blocks.find((block) => block.includes("--filter=sha256sum")) ?? "";
  const [hash = ""] = file.replace("days/2026-11-20.ndjson", '"$day.ndjson"').split("\n");
  return `${checks.join("\n")}
for day in $(ls *.ndjson | cut -d. -f1); do
  jq -r --arg day $day '.items[] | select(.day == $day) | .sha256' seals.json | grep -q "$(${hash})" ||
    echo "differs: $day"
done`;
}

const COMMANDS = await commands();

describe("a verifier judges", () => {
  for (const name of Array.from(Deno.readDirSync(CASES), ({ name }) => name).sort()) {
    const folder = CASES + name;
    const expected: Expected = JSON.parse(Deno.readTextFileSync(`${folder}/expected.json`));
    const { kept, right, wrong, why } = expected;

    it(`${name} as the case says: public-audit-log verify`, async () => {
      const { lines, isWell } = await verify({
        files: [folder],
        seals: [`${folder}/seals.json`],
        kept,
      });
      assertEquals(isWell, right, `${why}\n${lines.join("\n")}`);
      const [first = ""] = lines;
      if (!right) assert(new RegExp(`^((The )?[Ss]eal )?${wrong}\\b`).test(first), first);
    });

    it(`${name} as the case says: the commands of docs/verifying.md`, async () => {
      const { stdout, stderr } = await runProgram("bash", {
        args: ["-c", COMMANDS],
        cwd: folder,
        env: { KEPT: kept },
      });
      await Deno.remove(`${folder}/chain`);
      const all = `${JSON.parse(Deno.readTextFileSync(`${folder}/seals.json`)).items.length}`;
      const well = `${all}\nhas the seal that was kept: ${kept.split(":")[0]}\n`;
      const retaining = name === "retention-at-work";
      if (right && !retaining) assertEquals([stdout, stderr], [well, ""], why);
      else assert(stdout !== well, why);
      if (typeof wrong === "string") assertStringIncludes(stdout, `differs: ${wrong}`);
    });
  }

  it("no seals with altered days that are none, such as escapes that would write on a terminal", async () => {
    const folder = await Deno.makeTempDir();
    const seals = JSON.parse(Deno.readTextFileSync(`${CASES}good/seals.json`));
    const altered = ["\x1b[2K\x1b[1GAll is as it was sealed."];
    Deno.writeTextFileSync(`${folder}/seals.json`, JSON.stringify({ ...seals, altered }));
    await assertRejects(
      () => verify({ files: [`${CASES}good`], seals: [`${folder}/seals.json`] }),
      Error,
      "The seals are not what …/seals answers",
    );
    await Deno.remove(folder, { recursive: true });
  });
});
