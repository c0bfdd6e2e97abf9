import { assert } from "@std/assert";
import { describe, it } from "@std/testing/bdd";

const ROOT = new URL("../../", import.meta.url);
const FUNCTION = new URL("supabase/functions/public-audit-log/", ROOT);
const MOST_LINES = 120;

const files = [new URL("README.md", ROOT)];
for (const { name } of Deno.readDirSync(FUNCTION)) {
  if (name.endsWith(".ts") && name !== "database.types.ts") files.push(new URL(name, FUNCTION));
}

describe(`at most ${MOST_LINES} lines has`, () => {
  for (const file of files) {
    it(file.href.slice(ROOT.href.length), async () => {
      const lines = (await Deno.readTextFile(file)).split("\n").length - 1;
      assert(lines <= MOST_LINES, `${lines} lines`);
    });
  }
});
