import * as fs from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { AuditLogError, EXIT, messageOf, refuse } from "./client.ts";

/** New files hold personal data, or tell whose log is read: only their owner may read them. */
export const PRIVATE = 0o600;

/**
 * What stands in the place of a file that we write or continue. It must be a file of this user: somebody else reads
 * what is written to theirs, a link leads elsewhere, and a pipe never ends.
 */
export function ownFile(path: string): fs.Stats | undefined {
  const found = fs.lstatSync(path, { throwIfNoEntry: false });
  if (found && !(found.isFile() && isOwn(found))) refuseForeign(path);
  return found;
}

function isOwn({ uid }: fs.Stats): boolean {
  return uid === (process.getuid?.() ?? uid);
}

function refuseForeign(path: string): never {
  refuse(
    `${path} is not a file of yours, but a folder, a link or somebody else's: name another, or move it away.`,
  );
}

/** Writes a text beside a file, then puts it in its place in one step. */
export function writeWhole(path: string, text: string): void {
  ownFile(path);
  const written = `${path}.new`;
  // What somebody else has put there keeps its permissions, or leads elsewhere.
  fs.rmSync(written, { force: true });
  writeDurably(written, "wx", text);
  fs.renameSync(written, path);
}

/** Appends to a file, or makes a new one (`wx`). Returns how many bytes it wrote, when they are on the disk. */
export function writeDurably(
  path: string,
  flags: "a" | "wx",
  text: string,
  mode = PRIVATE,
): number {
  const bytes = Buffer.from(text);
  // No link: it may have come since ownFile looked. (Windows has no such flag.)
  const { O_WRONLY, O_CREAT, O_APPEND, O_EXCL, O_NOFOLLOW = 0 } = fs.constants;
  const how = flags === "a" ? O_APPEND : O_EXCL;
  try {
    const file = fs.openSync(path, O_WRONLY | O_CREAT | O_NOFOLLOW | how, mode);
    if (flags === "a" && !isOwn(fs.fstatSync(file))) refuseForeign(path);
    fs.writeFileSync(file, bytes);
    fs.fsyncSync(file);
    fs.closeSync(file);
  } catch (error) {
    if (error instanceof AuditLogError) throw error;
    const message = `${path} cannot be written: ${messageOf(error)}. Correct that.`;
    throw new AuditLogError(EXIT.gaveUp, `${message} Then run the same command again.`);
  }
  return bytes.length;
}

/** Reads the progress, with the cursor, that was saved in a file; `undefined` if there is no such file. */
export function readProgress<Progress extends { after: string }>(
  path: string,
): Progress | undefined {
  if (!ownFile(path)) return undefined;
  const text = fs.readFileSync(path, "utf8");
  try {
    const progress: Progress = JSON.parse(text);
    if (typeof progress.after === "string") return progress;
  } catch {
    // Cut off, or somebody else's.
  }
  refuse(
    `${path} is damaged: it has no cursor. Restore it, or move it away to begin again from --start on.`,
  );
}

/** An entry has 7,500 bytes at most. */
const LONGEST_LINE = 1_000_000;

/** The lines of a file in UTF-8. Only a line break ends one: readline would also split at the U+2028 of an entry. */
export async function* linesOf(
  path: string,
  input: AsyncIterable<Uint8Array> = fs.createReadStream(path),
): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let rest = "";
  for await (const piece of input) {
    const lines = (rest + decode(piece, true)).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
    if (rest.length > LONGEST_LINE) refuse(`${path} has a line that is too long for an entry.`);
  }
  rest += decode(new Uint8Array(), false);
  if (rest !== "") yield rest;

  function decode(piece: Uint8Array, stream: boolean): string {
    try {
      return decoder.decode(piece, { stream });
    } catch {
      refuse(`${path} is not in UTF-8.`);
    }
  }
}

/** How long the first of several waits for the others to give up. */
const LOOKS = 20;
const LOOK_MS = 50;

/**
 * Holds a file, or a folder, for this process alone. A file beside it, or in the folder, has the process's id in its
 * name, and counts as long as that process runs. Each process makes its own before it looks for others, so that no
 * two find none. Of several that begin together, the first by name waits, and the others give up.
 */
export async function lock(path: string): Promise<void> {
  const isFolder = fs.statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
  const folder = fs.realpathSync(isFolder ? path : dirname(resolve(path)));
  const prefix = isFolder ? "lock-" : `${basename(path)}.lock-`;
  const own = String(process.pid);
  const fileOf = (id: string) => join(folder, prefix + id);
  const release = () => fs.rmSync(fileOf(own), { force: true });
  release();
  writeDurably(fileOf(own), "wx", "");
  process.once("exit", release);
  for (let look = 1;; look++) {
    const others = fs.readdirSync(folder)
      .filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length))
      .filter((id) => /^\d+$/.test(id) && id !== own);
    const running = others.filter(isRunning);
    const [first] = running.sort();
    if (first === undefined) {
      for (const id of others) fs.rmSync(fileOf(id), { force: true });
      return;
    }
    if (first < own || look === LOOKS) {
      release();
      refuse(
        `${path} is in use by process ${first}: wait until it has ended. ` +
          `If that is another program, delete ${fileOf(first)}.`,
      );
    }
    await sleep(LOOK_MS);
  }
}

export function isRunning(id: string): boolean {
  try {
    // Signal 0 only asks.
    return process.kill(Number(id), 0);
  } catch (error) {
    // A process of another user.
    return codeOf(error) === "EPERM";
  }
}

export function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}
