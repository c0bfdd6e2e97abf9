// This and what it imports use nothing of Deno, so that they also run where there is none.

import * as fs from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import process from "node:process";
import root from "../../deno.json" with { type: "json" };
import { refuse } from "../client.ts";
import { writeDurably } from "../files.ts";
import { configByHand, FUNCTIONS, patchConfig } from "./patch_config.ts";

const MIGRATIONS = "supabase/migrations";
/** What may be left out, and may come later. */
const STREAMS = /_streams\.sql$|audit-log-streams/;
/** The migration that is the adopter's once it is installed: it says who their people and organizations are. */
const SEAM = /_people\.sql$/;

const CONFIG = "supabase/config.toml";
/** Where declarative schemas are, if there are any. */
const SCHEMAS = "supabase/schemas";
/** What is being written. It has one name, so that the next run removes what a killed one left. */
const TEMPORARY = "supabase/.audit_log_installing";

const NEXT = `Next, in that project (without --remote before version 3 of the Supabase CLI):

npx supabase db push --remote
npx supabase functions deploy public-audit-log --use-api

Then continue in docs/install.md, in the service's repository: expose the schema, schedule the nightly
upkeep, and connect your organizations and people.`;

interface File {
  path: string;
  text: string;
}

export interface InstallOptions {
  withoutStreams?: boolean | undefined;
  now?: Date;
}

/**
 * Installs from a copy of this repository, or from the package, into a project. Returns what to print. A run that
 * was killed is continued by the next one.
 *
 * @throws {AuditLogError} if the project has other files in the places of ours. Then nothing is changed.
 */
export function install(source: string, path: string, options: InstallOptions = {}): string {
  const { withoutStreams = false, now = new Date() } = options;
  // Where the command was typed: deno task changes into the folder of deno.json.
  const target = resolve(process.env["INIT_CWD"] ?? ".", path);
  if (
    !["config.toml", "migrations", "functions"].some((name) => find(target, `supabase/${name}`))
  ) {
    refuse(
      `${target} has no folder supabase with a config.toml, migrations or functions: name the ` +
        `folder that has it, or run npx supabase init there`,
    );
  }
  const functions = FUNCTIONS.filter((name) => !withoutStreams || !STREAMS.test(name));
  const config = readFile(target, CONFIG) ?? "";
  const patched = patchConfig(config, functions);
  const files = [
    ...migrations(source, target, now),
    ...functions.flatMap((name) => filesIn(source, `supabase/functions/${name}`)),
  ];
  const core = files.filter(({ path }) => !STREAMS.test(path));
  const streams = withoutStreams ? [] : files.filter(({ path }) => STREAMS.test(path));
  const written = missingFiles(target, core, streams);
  if (patched !== null && patched !== config) written.unshift({ path: CONFIG, text: patched });
  for (const file of written) write(target, file);

  const version = `Version ${root.version} is installed`;
  return [
    ...written.map(({ path }) => `wrote ${path}`),
    written.length === 0 ? `${version} already: nothing to do` : `${version}. ${NEXT}`,
    ...patched === null ? ["", configByHand(functions)] : [],
  ].join("\n");
}

/** Returns those files of our rooms that a project does not have yet. Refuses if it has others in their places. */
function missingFiles(target: string, ...rooms: File[][]): File[] {
  const wrong: string[] = [];
  const missing = rooms.flatMap((files) => {
    // The last file is there once a run has finished: what is missing then was removed.
    const isInstalled = find(target, files.at(-1)?.path ?? "") !== undefined;
    return files.filter(({ path, text }) => {
      const there = readFile(target, path);
      const isTheirs = SEAM.test(path) && (isInstalled || there !== null);
      if (isTheirs || there === text) return false;
      if (there !== null) wrong.push(`${path} is not as in version ${root.version}`);
      else if (isInstalled) wrong.push(`${path.replace(/\d{14}/, "…")} is gone`);
      return there === null;
    });
  });
  if (wrong.length === 0) return missing;
  refuse(
    `Nothing was changed, because of these files:\n  ${wrong.join("\n  ")}\n` +
      `Restore them from your history, and make your changes in files of your own. To take ` +
      `another version, see "Another version" in docs/install.md`,
  );
}

/** Our migrations by their names in a project, which begin with a later time than theirs. */
function migrations(source: string, target: string, now: Date): File[] {
  const hasSchemas = find(target, SCHEMAS)?.isDirectory() &&
    fs.readdirSync(join(target, SCHEMAS), { recursive: true, encoding: "utf8" })
      .some((path) => path.endsWith(".sql"));
  const theirs = find(target, MIGRATIONS) ? fs.readdirSync(join(target, MIGRATIONS)) : [];
  return filesIn(source, MIGRATIONS).flatMap(({ path, text }, n) => {
    const name = `${String(n + 1).padStart(2, "0")}_${basename(path).replace(/^\d+_/, "")}`;
    const there = theirs.find((file) => file.replace(/^\d+_/, "") === `audit_log_${name}`);
    const file = there ?? `${firstVersion(theirs, now) + n}_audit_log_${name}`;
    const migration = { path: `${MIGRATIONS}/${file}`, text };
    // What is only in migrations, the next sync of declarative schemas would drop.
    const copy = { path: `${SCHEMAS}/public-audit-log/${name}`, text };
    return hasSchemas ? [migration, copy] : [migration];
  });
}

/** The Supabase CLI compares versions as texts: a short one counts as the last time that begins with it. */
function firstVersion(theirs: string[], now: Date): number {
  const minute = `${now.toISOString().replace(/\D/g, "").slice(0, 12)}00`;
  const versions = theirs.map((file) => (/^\d{1,14}/.exec(file)?.[0] ?? "0").padEnd(14, "9"));
  const newest = Math.max(...versions.map(Number));
  const first = Math.max(Number(minute), newest + 1);
  if (first < 99_990_000_000_000) return first;
  refuse(
    `Nothing was changed. Our migrations must come after yours, but one of yours begins with ` +
      `${newest}. Rename it to begin with the time at which it was made, as supabase migration new does`,
  );
}

function filesIn(source: string, folder: string): File[] {
  return fs.readdirSync(join(source, folder), { recursive: true, encoding: "utf8" })
    .map((name) => `${folder}/${name.replaceAll("\\", "/")}`)
    .filter((path) => !path.includes("/.") && fs.statSync(join(source, path)).isFile()).sort()
    .map((path) => ({ path, text: fs.readFileSync(join(source, path), "utf8") }));
}

// Every file of a project is found, read and written here. A project may have been written by somebody else, so no
// link is followed, and no path leads out of the folder supabase.

/** Looks at each folder on the way to a file or folder, and at itself. */
function find(target: string, path: string): fs.Stats | undefined {
  const names = path.split("/");
  for (let length = 1;; length++) {
    const part = names.slice(0, length).join("/");
    const found = fs.lstatSync(join(target, part), { throwIfNoEntry: false });
    if (!found || (length === names.length && (found.isFile() || found.isDirectory()))) {
      return found;
    }
    if (!found.isDirectory()) refuseKind(part);
  }
}

function readFile(target: string, path: string): string | null {
  const found = find(target, path);
  if (found?.isDirectory()) refuseKind(path);
  return found ? fs.readFileSync(join(target, path), "utf8") : null;
}

/** Writes a file as a whole: a killed run leaves the old one, or none. */
function write(target: string, { path, text }: File): void {
  const [written, file] = [join(target, TEMPORARY), join(target, path)];
  // Removes a link itself. Then wx writes to a new file only, and to nothing that is put there meanwhile.
  fs.rmSync(written, { force: true });
  writeDurably(written, "wx", text, find(target, path)?.mode ?? 0o666);
  fs.mkdirSync(dirname(file), { recursive: true });
  fs.renameSync(written, file);
}

function refuseKind(path: string): never {
  refuse(
    `${path} is a link, or another kind of file than it has to be. Links are not followed, because they lead out of ` +
      `the project: put the file or folder itself there, and run this again`,
  );
}
