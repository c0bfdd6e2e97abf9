// Needs nothing.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { cp } from "node:fs/promises";
import { basename, join } from "node:path";
import { patchConfig } from "../../cli/install/patch_config.ts";
import { findRuntime } from "../../dev/local/edge_function.ts";
import { ROOT, runDeno, runProgram } from "../helpers/run_program.ts";

const FUNCTIONS = ["public-audit-log", "audit-log-streams"]
  .map((name) => join(ROOT, "supabase/functions", name));

/** Reads the packages of a lockfile, with their checksums, without the versions of the packages beside them. */
async function packagesOf(lockfile: string): Promise<Record<string, { integrity?: string }>> {
  const { npm } = JSON.parse(await Deno.readTextFile(lockfile));
  return Object.fromEntries(
    Object.entries<{ integrity?: string }>(npm)
      .map(([name, locked]) => [name.replace(/(.@[^_]*)_.*/, "$1"), locked]),
  );
}

describe("a deployed function", () => {
  it("has its lockfile and no JWT check, also from this repository's own config.toml", async () => {
    const text = await Deno.readTextFile(join(ROOT, "supabase/config.toml"));
    assertEquals(patchConfig(text), text);
  });

  it("runs the package versions that start and the tests use", async () => {
    const inStart = await packagesOf(join(ROOT, "deno.lock"));
    const inTests = await packagesOf(join(ROOT, "dev.lock"));
    for (const folder of [...FUNCTIONS, ROOT]) {
      const lockfile = join(folder, "deno.lock");
      for (const [name, { integrity }] of Object.entries(await packagesOf(lockfile))) {
        assert(integrity, `${name} has no checksum`);
        const others = [inStart[name]?.integrity, inTests[name]?.integrity];
        assertEquals(others, [integrity, integrity], `${name}: deno task lock`);
      }
    }
  });

  it("needs no file outside the functions' folders. Its lockfile has every package, and is of version 4, which Supabase's runtime reads, also on a project's own machine before 2026", async () => {
    const copies = await Deno.makeTempDir();
    for (const each of FUNCTIONS) await cp(each, join(copies, basename(each)), { recursive: true });
    for (const cwd of FUNCTIONS.map((each) => join(copies, basename(each)))) {
      const install = "install --frozen --node-modules-dir=none --entrypoint index.ts".split(" ");
      const installed = await runDeno({ args: install, cwd });
      assertEquals(installed.code, 0, installed.stderr);
      await Deno.symlink(join(ROOT, "node_modules"), join(cwd, "node_modules"));
      const args = ["run", "--frozen", "--node-modules-dir=manual", "--no-prompt", "index.ts"];
      const { stderr } = await runProgram(await findRuntime(), { args, cwd });
      // It has read the lockfile and all files, and may read no variable.
      assertStringIncludes(stderr, "NotCapable: Requires env access");
      const { version } = JSON.parse(await Deno.readTextFile(join(cwd, "deno.lock")));
      assertEquals(version, "4", "deno task lock");
    }
    await Deno.remove(copies, { recursive: true });
  });
});

it("the console is not built with an address that would mean something else in a page or a command", async () => {
  const sound = {
    VITE_SUPABASE_URL: "http://127.0.0.1:54321",
    VITE_SUPABASE_PUBLISHABLE_KEY: "sb_publishable_x",
    VITE_CONSOLE_URL: "https://console.example.com/a/",
  };
  const wrong = [
    ["VITE_CONSOLE_URL", '"https://console.example.com/"'],
    ["VITE_CONSOLE_URL", "javascript:alert(1)//"],
    ["VITE_SUPABASE_URL", 'https://x.example"><script>'],
    ["VITE_PUBLIC_AUDIT_LOG_URL", "https://x.example/`reboot`"],
  ] as const;
  for (const [name, value] of wrong) {
    const args = ["run", "--allow-all", join(ROOT, "console/build.ts"), "/dev/null/nowhere"];
    const { code, stderr } = await runDeno({ args, env: { ...sound, [name]: value } });
    assertEquals([code, stderr.includes(`${name} is not an address`)], [2, true], stderr);
  }
});
