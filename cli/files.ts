import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import * as fs from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { AuditLogError, EXIT, messageOf, refuse } from "./client.ts";

/** New files hold personal data, or tell whose log is read: only their owner may read them. */
const PRIVATE = 0o600;

/** Writes a text beside a file, then puts it in its place in one step. The file keeps its permissions. */
export function writeWhole(path: string, text: string): void {
  const file = fs.existsSync(path) ? fs.realpathSync(path) : path;
  const mode = fs.existsSync(file) ? fs.statSync(file).mode : PRIVATE;
  const written = join(dirname(file), `${basename(path)}.new`);
  // What somebody else has put there keeps its permissions, or leads elsewhere.
  fs.rmSync(written, { force: true });
  writeDurably(written, "wx", text, mode);
  fs.renameSync(written, file);
}

/** Appends to a file, or makes a new one (`wx`). Returns how many bytes it wrote, when they are on the disk. */
export function writeDurably(
  path: string,
  flags: "a" | "wx",
  text: string,
  mode = PRIVATE,
): number {
  const bytes = Buffer.from(text);
  try {
    const file = fs.openSync(path, flags, mode);
    fs.writeFileSync(file, bytes);
    fs.fsyncSync(file);
    fs.closeSync(file);
  } catch (error) {
    const message = `${path} cannot be written: ${messageOf(error)}. Correct that.`;
    throw new AuditLogError(EXIT.gaveUp, `${message} Then run the same command again.`);
  }
  return bytes.length;
}

/** Reads the progress, with the cursor, that was saved in a file; `undefined` if there is no such file. */
export function readProgress<Progress extends { after: string }>(
  path: string,
): Progress | undefined {
  if (!fs.existsSync(path)) return undefined;
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

type Claim = "holds" | "waits" | "gone";

/** What the socket of a process that does not answer says of it. With another error, it may be alive. */
const CLAIMS: Record<string, Claim> = { ECONNREFUSED: "gone", ENOENT: "gone", ECONNRESET: "waits" };

/**
 * Holds a file for this process alone, among those with the same folder for temporary files. Each process listens on
 * a socket of its own there, which ends with it, however it ends. As nobody takes over a socket, two cannot take the
 * same one. Of several that begin together, the first by name holds the file. The folder may be everybody's: only the
 * sockets of users who could harm the file anyway count.
 */
export async function lock(path: string): Promise<void> {
  const real = join(fs.realpathSync(dirname(resolve(path))), basename(path));
  const hash = createHash("sha256").update(real).digest("hex").slice(0, 16);
  const prefix = `public-audit-log-${hash}-`;
  const own = `${prefix}${randomBytes(4).toString("hex")}`;
  const folder = process.platform === "win32" ? "\\\\.\\pipe\\" : tmpdir();
  let claim: Claim = "waits";
  const server = createServer((connection) => connection.on("error", () => {}).end(claim)).unref();
  await once(server.listen(join(folder, own)), "listening");
  const isOfHolder = process.platform === "win32" ? () => true : holders(real);
  // Otherwise another user could not tell whether it is alive.
  if (process.platform !== "win32") fs.chmodSync(join(folder, own), 0o666);
  for (;;) {
    const names = fs.readdirSync(folder)
      .filter((name) => name.startsWith(prefix) && isOfHolder(join(folder, name))).sort();
    const claims = await Promise.all(names.map((name) => claimOf(join(folder, name))));
    const waiting = names.filter((_, n) => claims[n] === "waits");
    if (claims.includes("holds") || waiting[0] !== own) {
      server.close();
      refuse(`${path} is in use: wait until the other process has ended.`);
    }
    if (waiting.length === 1) {
      claim = "holds";
      const gone = names.filter((_, n) => claims[n] === "gone");
      for (const name of gone) remove(join(folder, name));
      return;
    }
    // Each of the others finds this one and ends, unless it looked before this one was there. Then it holds the file.
    await sleep(5);
  }
}

/** Tells whether a socket belongs to this user, to root, or to whoever owns the file or its folder. */
function holders(file: string): (socket: string) => boolean {
  const ownerOf = (path: string) => fs.lstatSync(path, { throwIfNoEntry: false })?.uid ?? -1;
  const users = [process.geteuid?.(), 0, ownerOf(file), ownerOf(dirname(file))];
  return (socket) => ownerOf(socket) >= 0 && users.includes(ownerOf(socket));
}

/** Removes the socket of a process that has ended. That of another user stays. */
function remove(socket: string): void {
  try {
    fs.rmSync(socket, { force: true });
  } catch (error) {
    if (!["EPERM", "EACCES"].includes(codeOf(error))) throw error;
  }
}

function claimOf(socket: string): Promise<Claim> {
  return new Promise((resolve) => {
    const connection = connect(socket);
    connection.setTimeout(1_000, () => {
      resolve("holds");
      connection.destroy();
    });
    connection.once("data", (answer) => resolve(`${answer}` === "holds" ? "holds" : "waits"));
    connection.once("error", (error) => resolve(CLAIMS[codeOf(error)] ?? "holds"));
    connection.once("close", () => resolve("waits"));
  });
}

/** The code of an error of the system, such as ENOENT. */
export function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}
