// This and what it imports use nothing of Deno, so that they also run where there is none.

import { createHash } from "node:crypto";
import { readFileSync, realpathSync } from "node:fs";
import { join } from "node:path";
import root from "../../deno.json" with { type: "json" };
import { refuse } from "../client.ts";
import { type Change, exists, listFiles, readFile, unixLines } from "./files.ts";
import { patchConfig } from "./patch_config.ts";
import { planMigrations } from "./plan_migrations.ts";

const { version } = root;
const FUNCTION = "supabase/functions/public-audit-log";
const CONFIG = "supabase/config.toml";

/** Says what was installed. It is written last, so it is there once a run has finished. */
const MANIFEST = `${FUNCTION}/installed.json`;

interface Manifest {
  version: string;
  /** Names without their times. */
  migrations: string[];
  /** SHA-256 of the function's files, with line ends as on Unix. */
  sha256: Record<string, string>;
}

/** What stands in it. A name with a separator would lead out of the function's folder. */
const PLAIN = /^\w[\w.-]*$/;

/** The changes of an installation, or an upgrade, in a project. */
export interface Installation {
  /** In the order in which to make them; none if this version is installed already. */
  changes: Change[];
  /** Migrations that were installed and are gone, as after `supabase migration squash`. */
  missing: string[];
  /** Whether a person has to edit config.toml. */
  isConfigByHand: boolean;
}

/**
 * Plans how to install from a copy of this repository into a project. It changes nothing:
 * `applyChanges` does. A file of ours that was changed there is never overwritten. `now` is in the new migrations'
 * names, unless their newest is later.
 *
 * @throws {AuditLogError} if a file was changed there.
 */
export function planInstallation(source: string, target: string, now = new Date()): Installation {
  assertSupabaseProject(source, target);
  const installed = readManifest(target);
  const migrations = planMigrations(source, target, installed?.migrations ?? [], now);
  const unknown = installed?.migrations.find((name) => !migrations.names.includes(name));
  if (unknown) {
    refuse(
      `Version ${installed?.version} is installed, with ${unknown}, which version ${version} does ` +
        `not have: use a newer version`,
    );
  }
  const files = planFunction(source, target, installed?.sha256 ?? {});
  const changed = [...migrations.changed, ...files.changed];
  if (changed.length > 0) {
    refuse(
      `Nothing was changed, because these files are not as they were installed:\n  ` +
        `${changed.join("\n  ")}\nMove your changes into files of your own. Then ` +
        `restore these files from your history, or delete those of the function, and run this again`,
    );
  }
  const changes = [...migrations.changes, ...files.changes];
  const config = readFile(target, CONFIG);
  const patched = config === null ? null : patchConfig(config);
  if (patched !== null && patched !== config) changes.push({ path: CONFIG, text: patched });
  const manifest = { version, migrations: migrations.names, sha256: files.sha256 };
  const text = `${JSON.stringify(manifest, null, 2)}\n`;
  if (unixLines(readFile(target, MANIFEST)) !== text) changes.push({ path: MANIFEST, text });
  const isConfigByHand = patched === null;
  return { changes, missing: migrations.missing, isConfigByHand };
}

function assertSupabaseProject(source: string, target: string): void {
  const known = ["config.toml", "config.json", "migrations", "functions"];
  if (!known.some((name) => exists(target, `supabase/${name}`))) {
    refuse(
      `${target} has no folder supabase with a config.toml, migrations or functions: name the ` +
        `folder that has it, or run npx supabase init there`,
    );
  }
  if (realpathSync(source) !== realpathSync(target)) return;
  refuse(`${target} is this repository: name the project to install into`);
}

function readManifest(target: string): Manifest | null {
  const text = readFile(target, MANIFEST);
  if (text === null) return null;
  try {
    const { version, migrations, sha256 }: Manifest = JSON.parse(text);
    const texts = [version, ...migrations, ...Object.entries(sha256).flat()];
    const isPlain = texts.every((text) => typeof text === "string" && PLAIN.test(text));
    if (isPlain && Array.isArray(migrations)) return { version, migrations, sha256 };
  } catch {
    // Cut off, merged, or of another shape.
  }
  refuse(`${MANIFEST} is damaged: restore it from your history`);
}

/** `installed` has the hashes of the files that are there, unless somebody changed them. */
function planFunction(source: string, target: string, installed: Record<string, string>) {
  const changes: Change[] = [];
  const changed: string[] = [];
  const sha256: Record<string, string> = {};
  const ours = listFiles(source, FUNCTION);
  for (const file of new Set([...ours, ...Object.keys(installed)])) {
    const path = `${FUNCTION}/${file}`;
    const text = ours.includes(file) ? readFileSync(join(source, path), "utf8") : null;
    if (text !== null) sha256[file] = hash(text);
    const there = readFile(target, path);
    const hashThere = there === null ? undefined : hash(there);
    if (hashThere === sha256[file]) continue;
    if (there === null || hashThere === installed[file]) changes.push({ path, text });
    else changed.push(path);
  }
  return { changes, changed, sha256 };
}

function hash(text: string): string {
  return createHash("sha256").update(unixLines(text)).digest("hex");
}
