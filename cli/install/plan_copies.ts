import { createHash } from "node:crypto";
import { type Change, listFiles, readFile, unixLines } from "./files.ts";
import { SEAM } from "./plan_migrations.ts";

/** The SHA-256 of files by name, with line ends as on Unix. */
export type Hashes = Record<string, string>;

/** The changes that copy a folder's files, or bring the copies up to date. */
export interface CopiesPlan {
  changes: Change[];
  /** Copies that somebody changed. They are not overwritten. */
  changed: string[];
  sha256: Hashes;
}

/** Plans the copies of one of our folders. `installed` has the hashes of those that are there. */
export function planCopies(
  source: string,
  target: string,
  from: string,
  to: string,
  installed: Hashes,
): CopiesPlan {
  const plan: CopiesPlan = { changes: [], changed: [], sha256: {} };
  const ours = listFiles(source, from);
  const seam = Object.entries(installed).find(([file]) => SEAM.test(file));
  for (const file of new Set([...ours, ...Object.keys(installed)])) {
    if (seam && SEAM.test(file)) {
      plan.sha256[seam[0]] = seam[1];
      continue;
    }
    const path = `${to}/${file}`;
    const text = ours.includes(file) ? readFile(source, `${from}/${file}`) : null;
    if (text !== null) plan.sha256[file] = hash(text);
    const there = readFile(target, path);
    const hashThere = there === null ? undefined : hash(there);
    if (hashThere === plan.sha256[file]) continue;
    if (there === null || hashThere === installed[file]) plan.changes.push({ path, text });
    else plan.changed.push(path);
  }
  return plan;
}

function hash(text: string): string {
  return createHash("sha256").update(unixLines(text)).digest("hex");
}
