// This and what it imports use nothing of Deno, so that they also run where there is none.

import { realpathSync } from "node:fs";
import root from "../../deno.json" with { type: "json" };
import { refuse } from "../client.ts";
import { type Change, exists, readFile, unixLines } from "./files.ts";
import { type Hashes, planCopies } from "./plan_copies.ts";
import { patchConfig } from "./patch_config.ts";
import { planMigrations } from "./plan_migrations.ts";
import { findSchemas } from "./find_schemas.ts";

const { version } = root;
const OURS = "public-audit-log";
const FUNCTIONS = "supabase/functions";
const SCHEMAS = "supabase/schemas";
const CONFIG = "supabase/config.toml";

/** Says what was installed. It is written last, so it is there once a run has finished. */
const MANIFEST = `${FUNCTIONS}/${OURS}/installed.json`;

interface Manifest {
  version: string;
  /** Names without their times. */
  migrations: string[];
  /** Of the functions' files. */
  sha256: Hashes;
  /** Of the schema files; none where schemas are not declarative. */
  schemas: Hashes;
}

/** What stands in it. Any other name with a separator would lead out of our folders. */
const PLAIN = /^((public-audit-log|audit-log-streams)\/(destinations\/)?)?\w[\w.-]*$/;

export interface Installation {
  /** In the order in which to make them; none if this version is installed already. */
  changes: Change[];
  /** Migrations that were installed and are gone, as after `supabase migration squash`. */
  missing: string[];
  isConfigByHand: boolean;
  /** The folder of the adopter's declarative schemas; `null` if they have none. */
  schemas: string | null;
  /** Whether a person has to copy our schema files there, because it is not in the folder supabase. */
  isSchemasByHand: boolean;
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
  const files = planCopies(source, target, FUNCTIONS, FUNCTIONS, installed?.sha256 ?? {});
  const config = readFile(target, CONFIG);
  const { folder, isByHand } = findSchemas(target, config);
  const copies = folder !== null && !isByHand
    ? planCopies(source, target, SCHEMAS, `${folder}/${OURS}`, installed?.schemas ?? {})
    : { changes: [], changed: [], sha256: {} };
  const changed = [...migrations.changed, ...files.changed, ...copies.changed];
  if (changed.length > 0) {
    refuse(
      `Nothing was changed, because these files are not as they were installed:\n  ` +
        `${changed.join("\n  ")}\nMove your changes into files of your own. Then ` +
        `restore these files from your history, or delete those that are not migrations, and run this again`,
    );
  }
  const changes = [...migrations.changes, ...copies.changes, ...files.changes];
  const patched = config === null ? null : patchConfig(config);
  if (patched !== null && patched !== config) changes.push({ path: CONFIG, text: patched });
  const manifest: Manifest = {
    version,
    migrations: migrations.names,
    sha256: files.sha256,
    schemas: copies.sha256,
  };
  const text = `${JSON.stringify(manifest, null, 2)}\n`;
  if (unixLines(readFile(target, MANIFEST)) !== text) changes.push({ path: MANIFEST, text });
  return {
    changes,
    missing: migrations.missing,
    isConfigByHand: patched === null,
    schemas: folder,
    isSchemasByHand: isByHand,
  };
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
    const { version, migrations, sha256, schemas }: Manifest = JSON.parse(text);
    const hashes = [sha256, schemas].flatMap((hashes) => Object.entries(hashes).flat());
    const texts = [version, ...migrations, ...hashes];
    const isPlain = texts.every((text) => typeof text === "string" && PLAIN.test(text));
    if (isPlain && Array.isArray(migrations)) return { version, migrations, sha256, schemas };
  } catch {
    // Cut off, merged, or of another shape.
  }
  refuse(
    `${MANIFEST} is damaged, or a newer version wrote it: restore it from your history, or use the newer version`,
  );
}
