import * as fs from "node:fs";
import { dirname, join, relative } from "node:path";
import { refuse } from "../client.ts";
import { writeDurably } from "../files.ts";

// Every file of an adopter's project is found, read, written and removed here. A project may have been written by
// somebody else, so no link is followed, and no path leads out of the folder supabase.

export interface Change {
  path: string;
  text: string | null;
}

/** In the folder of the file that is written. It has one name, so that the next run removes what a killed one left. */
const TEMPORARY = ".audit_log_installing";
const PATH = /^supabase(\/\.?\w[\w.-]*)*$/;

/** Makes the changes, each as a whole. If this is killed or fails between two, the next run continues. */
export function applyChanges(target: string, changes: Change[]): void {
  for (const { path, text } of changes) {
    const found = find(target, path);
    if (text !== null) write(target, path, text, found?.mode);
    else if (found) fs.unlinkSync(join(target, path));
  }
}

/** Lists the files in a folder, and in the folders in it, by name; none if there is no such folder. */
export function listFiles(root: string, path: string): string[] {
  const found = find(root, path);
  if (!found) return [];
  if (!found.isDirectory()) refuseKind(path);
  const folder = join(root, path);
  return fs.readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory() && !entry.name.startsWith("."))
    .map(({ parentPath, name }) => relative(folder, join(parentPath, name)).replaceAll("\\", "/"))
    .sort();
}

export function readFile(root: string, path: string): string | null {
  const found = find(root, path);
  if (!found) return null;
  if (!found.isFile()) refuseKind(path);
  // Windows has no O_NOFOLLOW: there it is undefined, which adds nothing.
  const file = fs.openSync(join(root, path), fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW);
  try {
    return fs.readFileSync(file, "utf8");
  } finally {
    fs.closeSync(file);
  }
}

export function exists(root: string, path: string): boolean {
  return find(root, path) !== undefined;
}

/** Says whether a path is in the folder supabase, and made of plain names. */
export function isInside(path: string): boolean {
  return PATH.test(path);
}

export function hasSql(root: string, path: string): boolean {
  return find(root, path)?.isDirectory() === true && hasSqlBelow(join(root, path));
}

function hasSqlBelow(folder: string): boolean {
  return fs.readdirSync(folder, { withFileTypes: true }).some((entry) =>
    entry.isDirectory() ? hasSqlBelow(join(folder, entry.name)) : entry.name.endsWith(".sql")
  );
}

/** Git on Windows changes line ends: compare texts without them. */
export function unixLines(text: string | null): string {
  return text?.replaceAll("\r\n", "\n") ?? "";
}

/** Looks at each folder on the way to a file or folder, and at itself. */
function find(root: string, path: string): fs.Stats | undefined {
  if (!isInside(path)) refuse(`${JSON.stringify(path)} is not a file of the folder supabase`);
  const names = path.split("/");
  for (let length = 1;; length++) {
    const part = names.slice(0, length).join("/");
    const found = fs.lstatSync(join(root, part), { throwIfNoEntry: false });
    if (!found || (length === names.length && (found.isFile() || found.isDirectory()))) {
      return found;
    }
    if (!found.isDirectory()) refuseKind(part);
  }
}

function refuseKind(path: string): never {
  refuse(
    `${path} is a link, or another kind of file than it has to be. Links are not followed, because they lead out of ` +
      `the project: put the file or folder itself there, and run this again`,
  );
}

function write(root: string, path: string, text: string, mode = 0o666): void {
  const folder = dirname(path);
  if (!find(root, folder)) fs.mkdirSync(join(root, folder), { recursive: true });
  const written = join(root, folder, TEMPORARY);
  // Removes a link itself. Then wx writes to a new file only, and to nothing that is put there meanwhile.
  fs.rmSync(written, { force: true });
  writeDurably(written, "wx", text, mode);
  fs.renameSync(written, join(root, path));
}
