import { readFileSync } from "node:fs";
import { join } from "node:path";
import { refuse } from "../client.ts";
import { type Change, listFiles, readFile, unixLines } from "./files.ts";

const MIGRATIONS = "supabase/migrations";
const INSTALLED_NAME = /^\d+_audit_log_(\d{2,}_.+\.sql)$/;

/** This file is the adopter's once it is installed: it says who their people and organizations are. */
export const SEAM = /^\d+_people\.sql$/;

export interface MigrationsPlan {
  /** The names of our migrations in an adopter's project, without the time. */
  names: string[];
  changes: Change[];
  changed: string[];
  /** Migrations that were installed and are gone, as after `supabase migration squash`. */
  missing: string[];
}

/** Plans the migrations that are new in a project; `installed` are the names of an earlier plan. */
export function planMigrations(
  source: string,
  target: string,
  installed: string[],
  now: Date,
): MigrationsPlan {
  const theirs = listFiles(target, MIGRATIONS).filter((file) => /^\d+_.*\.sql$/.test(file));
  const plan: MigrationsPlan = { names: [], changes: [], changed: [], missing: [] };
  const added: { name: string; text: string }[] = [];
  for (const file of listFiles(source, MIGRATIONS)) {
    const number = String(plan.names.length + 1).padStart(2, "0");
    const name = `${number}_${file.replace(/^\d+_/, "")}`;
    const text = readFileSync(join(source, MIGRATIONS, file), "utf8");
    const found = theirs.find((file) => file.match(INSTALLED_NAME)?.[1] === name);
    plan.names.push(name);
    if (found) {
      const path = `${MIGRATIONS}/${found}`;
      const isTheirs = SEAM.test(name) || unixLines(readFile(target, path)) === unixLines(text);
      if (!isTheirs) plan.changed.push(path);
    } else if (installed.includes(name)) {
      plan.missing.push(name);
    } else {
      added.push({ name, text });
    }
  }
  const first = firstTime(theirs, now, added.length);
  plan.changes = added.map(({ name, text }, n) => {
    const time = new Date(first + n * 1000).toISOString().replace(/\D/g, "").slice(0, 14);
    return { path: `${MIGRATIONS}/${time}_audit_log_${name}`, text };
  });
  return plan;
}

/** The first time in the names of new migrations. The last is now, unless one of theirs is newer than the first. */
function firstTime(theirs: string[], now: Date, count: number): number {
  const newest = theirs.map((file) => latestTime(file.replace(/_.*/, ""))).sort().at(-1);
  const after = newest?.replace(/(....)(..)(..)(..)(..)(..)/, "$1-$2-$3T$4:$5:$6Z");
  const first = Math.max(
    now.getTime() - (count - 1) * 1000,
    after === undefined ? 0 : Date.parse(after) + 1000,
  );
  if (count === 0 || first < Date.UTC(9999, 0)) return first;
  refuse(
    `Nothing was changed. Our migrations must come after yours, but one of yours has the time ` +
      `${newest}. Rename it to begin with the time at which it was made, as supabase migration new does`,
  );
}

/** The latest time that begins with a version, which may be shorter (20261231) or longer: the CLI compares texts. */
function latestTime(version: string): string {
  return version.slice(0, 14) + "99991231235959".slice(version.length);
}
