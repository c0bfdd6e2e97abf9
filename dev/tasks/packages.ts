// Installs npm packages into node_modules as locked: deno.lock has what start and install run, dev.lock has all.
// With --update, it updates the lockfiles after a change of imports, and keeps the versions already locked. Each Edge
// Function has its own, which Supabase reads, and which the Deno of Supabase's runtime writes, because that reads no newer
// format.

import { existsSync } from "node:fs";
import { cp, glob } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { findSupabase } from "../local/supabase_cli.ts";
import { denoInstall } from "./deno_install.ts";
import { lockPostgresVersions } from "./postgres/versions.ts";
import { stdFlags } from "./std.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const AUTO = "--node-modules-dir=auto";
const FUNCTIONS = ["public-audit-log", "audit-log-streams"]
  .map((name) => join(ROOT, "supabase/functions", name));

const ENTRYPOINTS = [
  "dev/tasks/start.ts",
  "cli/main.ts",
  "dev/tasks/build_cli.ts",
  "console/build.ts",
  "console/main.tsx",
  "supabase/functions/public-audit-log/index.ts",
  "supabase/functions/audit-log-streams/index.ts",
];

const { dev: isDev, update: isUpdate } = parseArgs({
  options: { dev: { type: "boolean" }, update: { type: "boolean" } },
}).values;

if (isUpdate) {
  await denoInstall(ROOT, [AUTO, "--lock=deno.lock"], ENTRYPOINTS);
  const devFiles = await Array.fromAsync(glob("{dev,docs,tests}/**/*.ts", { cwd: ROOT }));
  await denoInstall(ROOT, await stdFlags(), [...ENTRYPOINTS, ...devFiles]);
  for (const folder of FUNCTIONS) await updateFunctionLock(folder);
  await lockPostgresVersions();
} else {
  const isFirst = !existsSync(join(ROOT, "node_modules"));
  // On standard error, because programs read the output of status.
  if (isFirst) console.error("Installing packages into node_modules …");
  // npx downloads the Supabase CLI meanwhile. If it cannot, start says why.
  const cli = isFirst && findSupabase().catch(() => {});
  await denoInstall(ROOT, [AUTO, "--lock=deno.lock", "--frozen"], ENTRYPOINTS);
  await cli;
  if (isDev) await denoInstall(ROOT, [AUTO, "--lock=dev.lock", "--frozen"], ENTRYPOINTS);
}

/** Writes a function's lockfile outside this workspace, whose lockfile Deno would update instead. */
async function updateFunctionLock(of: string): Promise<void> {
  const folder = await Deno.makeTempDir();
  await cp(of, folder, { recursive: true });
  // Its own import needs the packages that are installed now.
  const { findRuntime } = await import("../local/edge_function.ts");
  await denoInstall(folder, [AUTO], ["index.ts"], await findRuntime());
  await Deno.copyFile(join(folder, "deno.lock"), join(of, "deno.lock"));
  await Deno.remove(folder, { recursive: true });
}
