import { assert, assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { cp } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { patchConfig } from "../../cli/install/patch_config.ts";
import { runDeno, runProgram } from "../run_program.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const FUNCTION = "supabase/functions/public-audit-log";

/** Reads the packages of a lockfile, with their checksums. */
async function packagesOf(lockfile: string): Promise<Record<string, { integrity?: string }>> {
  return JSON.parse(await Deno.readTextFile(join(ROOT, lockfile))).npm;
}

describe("the deployed function", () => {
  it("has its lockfile and no JWT check, also from this repository's own config.toml", async () => {
    const text = await Deno.readTextFile(join(ROOT, "supabase/config.toml"));
    assertEquals(patchConfig(text), text);
  });

  it("runs the package versions that start and the tests use", async () => {
    const inStart = await packagesOf("deno.lock");
    const inTests = await packagesOf("dev.lock");
    for (const lockfile of [`${FUNCTION}/deno.lock`, "deno.lock"]) {
      for (const [name, { integrity }] of Object.entries(await packagesOf(lockfile))) {
        assert(integrity, `${name} has no checksum`);
        const others = [inStart[name]?.integrity, inTests[name]?.integrity];
        assertEquals(others, [integrity, integrity], `${name}: deno task lock`);
      }
    }
  });

  it("needs no file outside its folder, whose lockfile has every package, and bundles into one as docs/operating.md says", async () => {
    const folder = await Deno.makeTempDir();
    await cp(join(ROOT, FUNCTION), join(folder, FUNCTION), { recursive: true });
    const install = ["install", "--frozen", "--node-modules-dir=none", "--entrypoint", "index.ts"];
    const installed = await runDeno({ args: install, cwd: join(folder, FUNCTION) });
    assertEquals(installed.code, 0, installed.stderr);
    const guide = await Deno.readTextFile(join(ROOT, "docs/operating.md"));
    const command = guide.match(/^cd supabase.* deno bundle(?:.|\n)*?(?=```)/m)?.[0] ?? "";
    const bundled = await runProgram("bash", { args: ["-c", command], cwd: folder });
    assertEquals(bundled.code, 0, bundled.stderr);
    const [, entrypoint = ""] = guide.match(/`entrypoint = "(.*?)"`/) ?? [];
    const bundle = await Deno.readTextFile(join(folder, "supabase", entrypoint));
    assertEquals([bundle.includes("Deno.serve("), /^import/m.test(bundle)], [true, false]);
    await Deno.remove(folder, { recursive: true });
  });
});
