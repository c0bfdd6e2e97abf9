// Needs nothing.

import { assert, assertEquals } from "@std/assert";
import { it } from "@std/testing/bdd";
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import metadata from "../../deno.json" with { type: "json" };
import openapi from "../../docs/openapi.json" with { type: "json" };
import { ROOT } from "../helpers/run_program.ts";

// Changelog, release files, lists of frozen migrations, OpenAPI and deno.json name the same versions.

const RELEASES = join(ROOT, "docs/releases");

const byVersion = new Intl.Collator("en", { numeric: true }).compare;
const files = existsSync(RELEASES)
  ? Array.from(Deno.readDirSync(RELEASES), ({ name }) => name)
  : [];
const released = files.filter((name) => name.endsWith(".json"))
  .map((name) => name.slice(0, -".json".length)).sort(byVersion);
const changelog = await Deno.readTextFile(join(ROOT, "CHANGELOG.md"));
const { version } = metadata;

it("the releases match the versions in the changelog, and keep their migrations: newer ones come after them", async () => {
  const versions = Array.from(changelog.matchAll(/^## \[(\d.*)\]/gm), ([, version]) => version);
  assertEquals(versions.reverse(), released, "copy docs/openapi.json to docs/releases");
  const lists = released.map((version) => `${version}.migrations.sha256`);
  const found = files.filter((name) => name.endsWith(".sha256")).sort(byVersion);
  assertEquals(found, lists, "list them as CONTRIBUTING.md says");
  const paths = Array.from(Deno.readDirSync(join(ROOT, "supabase/migrations")))
    .map(({ name }) => `supabase/migrations/${name}`).sort();
  for (const name of lists) {
    const list = await Deno.readTextFile(join(RELEASES, name));
    const sums = paths.slice(0, list.trimEnd().split("\n").length).map((path) => {
      const hash = createHash("sha256").update(Deno.readFileSync(join(ROOT, path)));
      return `${hash.digest("hex")}  ${path}\n`;
    });
    assertEquals(sums.join(""), list, "add a migration instead of changing a released one");
  }
});

it("the workflows name each action by its commit, which nobody can move", async () => {
  for (const name of ["ci.yml", "release.yml"]) {
    const workflow = await Deno.readTextFile(join(ROOT, ".github/workflows", name));
    const uses = workflow.match(/uses: .*/g) ?? [];
    assert(uses.length > 0);
    for (const use of uses) assert(/@[0-9a-f]{40} # v[\d.]+$/.test(use), use);
  }
});

it("this version equals the contract's, and is not older than the last release. It has the contract that was released, or the changelog says what is new", async () => {
  assertEquals(openapi.info.version, version, "deno task openapi");
  assertEquals([...released, version].sort(byVersion).at(-1), version, "raise it in deno.json");
  if (released.includes(version)) {
    const text = await Deno.readTextFile(join(RELEASES, `${version}.json`));
    assertEquals(openapi, JSON.parse(text), "raise the version in deno.json");
  } else {
    assert(/^## \[Unreleased\]\n\n### /m.test(changelog), `nothing is under ## [Unreleased]`);
  }
});
