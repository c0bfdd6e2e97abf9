import { assert, assertEquals, assertRejects } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import metadata from "../../deno.json" with { type: "json" };
import openapi from "../../docs/openapi.json" with { type: "json" };
import { changesOfFrozenMigrations, freezeMigrations } from "../../tasks/freeze.ts";
import { runProgram } from "../run_program.ts";

// Changelog, release files, lists of frozen migrations, OpenAPI and package name the same versions.

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const RELEASES = join(ROOT, "docs/releases");

/** The releases before migrations were frozen. */
const UNFROZEN = ["1.0.0", "1.1.0"];

const byVersion = new Intl.Collator("en", { numeric: true }).compare;
const files = Array.from(Deno.readDirSync(RELEASES), ({ name }) => name);
const released = files.filter((name) => name.endsWith(".json"))
  .map((name) => name.slice(0, -".json".length)).sort(byVersion);
const changelog = await Deno.readTextFile(join(ROOT, "CHANGELOG.md"));
const { version } = metadata;

describe("the releases", () => {
  it("are those of the changelog", () => {
    const versions = Array.from(changelog.matchAll(/^## \[(\d.*)\]/gm), ([, version]) => version);
    assertEquals(versions.reverse(), released, "copy docs/openapi.json to docs/releases");
  });

  it("have lists of their migrations", () => {
    const lists = released.filter((version) => !UNFROZEN.includes(version))
      .map((version) => `${version}.migrations.sha256`);
    const found = files.filter((name) => name.endsWith(".sha256")).sort(byVersion);
    assertEquals(found, lists, "deno task freeze");
  });

  it("keep their migrations, and newer ones come after them", async () => {
    assertEquals(await changesOfFrozenMigrations(ROOT), []);
  });
});

describe("this version", () => {
  it("is that of the contract, and not older than the last release", () => {
    assertEquals(openapi.info.version, version, "deno task openapi");
    assertEquals([...released, version].sort(byVersion).at(-1), version, "raise it in deno.json");
  });

  it("is as it was released, or the changelog says what is new", async () => {
    if (released.includes(version)) {
      const text = await Deno.readTextFile(join(RELEASES, `${version}.json`));
      assertEquals(openapi, JSON.parse(text), "raise the version in deno.json");
    } else {
      assert(/^## \[Unreleased\]\n\n### /m.test(changelog), `nothing is under ## [Unreleased]`);
    }
  });
});

describe("a list of released migrations", () => {
  it("is written once, for sha256sum, and finds an edit, a removal and an insertion", async () => {
    const folder = await Deno.makeTempDir();
    const path = (name: string) => join(folder, "supabase/migrations", name);
    const write = (name: string, text: string) => Deno.writeTextFile(path(name), text);
    await Deno.mkdir(path("."), { recursive: true });
    await Deno.mkdir(join(folder, "docs/releases"), { recursive: true });
    await write("1_tables.sql", "select 1;\n");
    await write("3_keys.sql", "select 3;\n");
    const list = await freezeMigrations(folder, "1.2.0");
    await assertRejects(() => freezeMigrations(folder, "1.2.0"), Deno.errors.AlreadyExists);
    const args = ["--check", "--strict", list];
    const { code, stdout } = await runProgram("sha256sum", { args, cwd: folder });
    assertEquals([code, stdout.split("\n").length], [0, 3], stdout);

    await write("4_more.sql", "select 4;\n");
    assertEquals(await changesOfFrozenMigrations(folder), []);
    await write("1_tables.sql", "select 1; -- better\n");
    await write("2_between.sql", "select 2;\n");
    await Deno.remove(path("3_keys.sql"));
    assertEquals(await changesOfFrozenMigrations(folder), [
      "1_tables.sql differs from 1.2.0.migrations.sha256",
      "3_keys.sql is gone, and in 1.2.0.migrations.sha256",
      "2_between.sql must come after 1.2.0.migrations.sha256",
    ]);
    await Deno.remove(folder, { recursive: true });
  });
});
