// Installs npm packages into node_modules as locked: deno.lock has what start and install run, dev.lock has all.
// (Without this, Deno would print a line for each of some hundred packages at the first start.)
//
// With --update, it updates the lockfiles after a change of imports, and keeps the versions already locked.
// The Edge Function has a lockfile of its own, because the platform reads the one beside its deno.json. So has
// each Postgres that is installed for tests only (postgres/versions.ts).

import { cp, glob } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { lockPostgresVersions } from "./postgres/versions.ts";
import { stdFlags } from "./std.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const FUNCTION = join(ROOT, "supabase/functions/public-audit-log");

/** What start, install and the builds run. */
const ENTRYPOINTS = [
  "tasks/start.ts",
  "cli/main.ts",
  "tasks/build_cli.ts",
  "console/build.ts",
  "console/main.tsx",
  "supabase/functions/public-audit-log/index.ts",
];

const { dev: isDev, update: isUpdate } = parseArgs({
  options: { dev: { type: "boolean" }, update: { type: "boolean" } },
}).values;

if (isUpdate) {
  await install(ROOT, ["--lock=deno.lock"], ENTRYPOINTS);
  await install(ROOT, await stdFlags(), [...ENTRYPOINTS, ...await devFiles()]);
  await updateFunctionLock();
  await lockPostgresVersions();
} else {
  // On standard error, because programs read the output of status.
  if (!await hasPackages()) console.error("Installing packages into node_modules …");
  await install(ROOT, ["--lock=deno.lock", "--frozen"], ENTRYPOINTS);
  if (isDev) await install(ROOT, ["--lock=dev.lock", "--frozen"], ENTRYPOINTS);
}

async function install(folder: string, flags: string[], entrypoints: string[]): Promise<void> {
  const { success } = await new Deno.Command(Deno.execPath(), {
    args: [
      "install",
      "--quiet",
      "--node-modules-dir=auto",
      ...flags.filter((flag) => !flag.startsWith("--node-modules-dir")),
      "--entrypoint",
      ...entrypoints,
    ],
    cwd: folder,
    stdin: "null",
  }).spawn().status;
  if (!success) Deno.exit(1);
}

interface Lockfile {
  /** What is imported, and the version that it stands for. */
  specifiers: Record<string, string>;
}

/** Writes the function's lockfile, with the versions of deno.lock. */
async function updateFunctionLock(): Promise<void> {
  const folder = await Deno.makeTempDir();
  await cp(FUNCTION, folder, { recursive: true });
  const lock: Lockfile = JSON.parse(await Deno.readTextFile(join(ROOT, "deno.lock")));
  const { imports }: { imports: Record<string, string> } = JSON.parse(
    await Deno.readTextFile(join(FUNCTION, "deno.json")),
  );
  const imported = Object.values(imports);
  for (const specifier of Object.keys(lock.specifiers)) {
    if (!imported.includes(specifier)) delete lock.specifiers[specifier];
  }
  await Deno.writeTextFile(join(folder, "deno.lock"), JSON.stringify(lock));
  await install(folder, [], ["index.ts"]);
  await Deno.copyFile(join(folder, "deno.lock"), join(FUNCTION, "deno.lock"));
  await Deno.remove(folder, { recursive: true });
}

/** Everything that is not deployed. */
async function devFiles(): Promise<string[]> {
  const files: string[] = [];
  for (const folder of ["bench", "docs", "tasks", "tests"]) {
    for await (const path of glob(`${folder}/**/*.ts`, { cwd: ROOT })) files.push(path);
  }
  return files;
}

async function hasPackages(): Promise<boolean> {
  return await Deno.stat(join(ROOT, "node_modules")).then(() => true, () => false);
}
