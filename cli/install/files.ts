import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { writeWhole } from "../files.ts";

/** A file to write, or to remove if it has no text. */
export interface Change {
  /** In the adopter's project. */
  path: string;
  text: string | null;
}

/** Makes the changes, each as a whole. If this is killed or fails between two, the next run goes on. */
export function applyChanges(target: string, changes: Change[]): void {
  for (const { path, text } of changes) {
    const file = join(target, path);
    if (text === null) {
      rmSync(file, { force: true });
    } else {
      mkdirSync(dirname(file), { recursive: true });
      // The new migrations of the next run have other names, so it could not overwrite what this leaves when killed.
      writeWhole(file, text, ".audit_log_installing");
    }
  }
}

/** Lists the files in a folder by name; none if there is no such folder. */
export function listFiles(root: string, path: string): string[] {
  const folder = join(root, path);
  const names = existsSync(folder) ? readdirSync(folder) : [];
  return names.filter((name) => !name.startsWith(".")).sort();
}

/** Reads a file; `null` if there is no such file. */
export function readFile(root: string, path: string): string | null {
  return existsSync(join(root, path)) ? readFileSync(join(root, path), "utf8") : null;
}

/** Git on Windows changes line ends: compare texts without them. */
export function unixLines(text: string | null): string {
  return text?.replaceAll("\r\n", "\n") ?? "";
}
