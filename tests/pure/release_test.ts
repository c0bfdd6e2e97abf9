import { assert, assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import metadata from "../../deno.json" with { type: "json" };
import openapi from "../../docs/openapi.json" with { type: "json" };
import { runProgram } from "../run_program.ts";

// Changelog, release files, lists of frozen migrations, OpenAPI and deno.json name the same versions.

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const RELEASES = join(ROOT, "docs/releases");

/** The releases before migrations were frozen. */
const UNFROZEN = ["1.0.0", "1.1.0"];

const byVersion = new Intl.Collator("en", { numeric: true }).compare;
const files = Array.from(Deno.readDirSync(RELEASES), ({ name }) => name);
const released = files.filter((name) => name.endsWith(".json"))
  .map((name) => name.slice(0, -".json".length)).sort(byVersion);
const lists = files.filter((name) => name.endsWith(".sha256")).sort(byVersion);
const changelog = await Deno.readTextFile(join(ROOT, "CHANGELOG.md"));
const { version } = metadata;

describe("the releases", () => {
  it("match the versions in the changelog", () => {
    const versions = Array.from(changelog.matchAll(/^## \[(\d.*)\]/gm), ([, version]) => version);
    assertEquals(versions.reverse(), released, "copy docs/openapi.json to docs/releases");
  });

  it("have lists of their migrations' checksums, except those before migrations were frozen", () => {
    const expected = released.filter((version) => !UNFROZEN.includes(version))
      .map((version) => `${version}.migrations.sha256`);
    assertEquals(lists, expected, "list them as CONTRIBUTING.md says");
  });

  it("keep their migrations, and newer migrations come after them", async () => {
    const names = Array.from(
      Deno.readDirSync(join(ROOT, "supabase/migrations")),
      ({ name }) => name,
    );
    for (const list of lists.map((name) => join(RELEASES, name))) {
      const args = ["--check", "--strict", "--quiet", list];
      const { code, stdout } = await runProgram("sha256sum", { args, cwd: ROOT });
      assertEquals([code, stdout], [0, ""]);
      const frozen = Array.from(
        (await Deno.readTextFile(list)).matchAll(/[^/\n]+$/gm),
        ([name]) => name,
      );
      assertEquals(names.sort().slice(0, frozen.length), frozen);
    }
  });
});

describe("this version", () => {
  it("equals the contract's version, and is not older than the last release", () => {
    assertEquals(openapi.info.version, version, "deno task openapi");
    assertEquals([...released, version].sort(byVersion).at(-1), version, "raise it in deno.json");
  });

  it("has the contract that was released, or the changelog says what is new", async () => {
    if (released.includes(version)) {
      const text = await Deno.readTextFile(join(RELEASES, `${version}.json`));
      assertEquals(openapi, JSON.parse(text), "raise the version in deno.json");
    } else {
      assert(/^## \[Unreleased\]\n\n### /m.test(changelog), `nothing is under ## [Unreleased]`);
    }
  });
});
