import { assert, assertEquals, assertRejects } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { changesOfFrozenMigrations, freezeMigrations, oldestRelease } from "../../tasks/freeze.ts";
import { runProgram } from "../run_program.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** The releases before the first whose migrations are frozen. */
const UNFROZEN = ["1.0.0", "1.1.0"];

/** A folder with two migrations, frozen as version 1.2.0. */
async function releasedFolder() {
  const folder = await Deno.makeTempDir();
  const write = (name: string, text: string) =>
    Deno.writeTextFile(join(folder, "supabase/migrations", name), text);
  await Deno.mkdir(join(folder, "supabase/migrations"), { recursive: true });
  await Deno.mkdir(join(folder, "docs/releases"), { recursive: true });
  await write("1_tables.sql", "select 1;\n");
  await write("3_keys.sql", "select 3;\n");
  await freezeMigrations(folder, "1.2.0");
  return { folder, write, [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }) };
}

describe("the released migrations", () => {
  it("are as they were released, and newer ones come after them", async () => {
    assertEquals(await changesOfFrozenMigrations(ROOT), []);
  });

  it("have a list for each release", () => {
    const names = Array.from(Deno.readDirSync(join(ROOT, "docs/releases")), ({ name }) => name);
    for (const name of names.filter((name) => name.endsWith(".json"))) {
      const version = name.slice(0, -".json".length);
      const list = `${version}.migrations.sha256`;
      assert(UNFROZEN.includes(version) || names.includes(list), `${list}: deno task freeze`);
    }
  });
});

describe("a list of released migrations", () => {
  it("fails an edit, a removal and an insertion, and accepts an addition", async () => {
    await using released = await releasedFolder();
    const { folder, write } = released;
    await write("4_more.sql", "select 4;\n");
    assertEquals(await changesOfFrozenMigrations(folder), []);
    await write("1_tables.sql", "select 1; -- better\n");
    await write("2_between.sql", "select 2;\n");
    await Deno.remove(join(folder, "supabase/migrations/3_keys.sql"));
    assertEquals(await changesOfFrozenMigrations(folder), [
      "1_tables.sql differs from 1.2.0.migrations.sha256",
      "3_keys.sql is gone, and in 1.2.0.migrations.sha256",
      "2_between.sql must come after 1.2.0.migrations.sha256",
    ]);
  });

  it("of the oldest release is found among newer ones", async () => {
    await using released = await releasedFolder();
    const { folder, write } = released;
    await write("4_more.sql", "select 4;\n");
    await freezeMigrations(folder, "1.10.0");
    const oldest = await oldestRelease(folder);
    assertEquals(Array.from(oldest?.frozen.keys() ?? []), ["1_tables.sql", "3_keys.sql"]);
  });

  it("is checked by sha256sum, and never written a second time", async () => {
    await using released = await releasedFolder();
    const args = ["--check", "--strict", "docs/releases/1.2.0.migrations.sha256"];
    const { code, stdout } = await runProgram("sha256sum", { args, cwd: released.folder });
    assertEquals([code, stdout.split("\n").length], [0, 3], stdout);
    await assertRejects(
      () => freezeMigrations(released.folder, "1.2.0"),
      Deno.errors.AlreadyExists,
    );
  });
});
