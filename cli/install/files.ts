import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { AuditLogError, EXIT } from "../client.ts";

/** Stops an installation. The message says what was seen and what to do. */
export class InstallError extends AuditLogError {
  constructor(message: string) {
    super(EXIT.gaveUp, message);
  }
}

/** A file to write, or to remove if it has no text. */
export interface Change {
  /** In the adopter's project. */
  path: string;
  text: string | null;
  /** The lines that are new in a file of theirs. */
  added?: string[];
}

/**
 * Makes the changes, each as a whole. If this is killed or fails between two, the next run goes on.
 *
 * @throws {InstallError} with the file that it could not write.
 */
export function applyChanges(target: string, changes: Change[]): void {
  for (const { path, text } of changes) {
    try {
      if (text === null) rmSync(join(target, path), { force: true });
      else writeWhole(join(target, path), text);
    } catch (error) {
      const cause = error instanceof Error ? error.message : error;
      throw new InstallError(
        `Stopped at ${path}: ${cause}. What was written before it is complete. Remove the cause ` +
          `and run this again: it goes on from here`,
      );
    }
  }
}

/** Writes beside the file, then renames. The next run overwrites what a killed one left. */
function writeWhole(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  const file = existsSync(path) ? realpathSync(path) : path;
  const temporary = join(dirname(file), ".audit_log_installing");
  const mode = existsSync(file) ? statSync(file).mode : 0o666;
  writeFileSync(temporary, text, { mode, flush: true });
  renameSync(temporary, file);
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
