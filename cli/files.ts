import { createHash } from "node:crypto";
import * as fs from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import process from "node:process";
import { AuditLogError, EXIT, messageOf, refuse } from "./client.ts";

/** Writes a text to the disk, then puts it in the place of a file in one step. */
export function writeWhole(path: string, text: string): void {
  writeDurably(`${path}.new`, "w", text);
  fs.renameSync(`${path}.new`, path);
}

/** Replaces a file, or appends to it. Returns how many bytes it wrote, when they are on the disk. */
export function writeDurably(path: string, flags: "w" | "a", text: string): number {
  const bytes = Buffer.from(text);
  try {
    const file = fs.openSync(path, flags);
    fs.writeFileSync(file, bytes);
    fs.fsyncSync(file);
    fs.closeSync(file);
  } catch (error) {
    const message = `${path} cannot be written: ${messageOf(error)}`;
    throw new AuditLogError(
      EXIT.gaveUp,
      `${message}. Correct that. Then run the same command again.`,
    );
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

/**
 * Holds a file for this process alone. The lock is a socket in the folder for temporary files: it ends with the
 * process, however that ends.
 */
export async function lock(path: string): Promise<void> {
  const real = join(fs.realpathSync(dirname(resolve(path))), basename(path));
  const name = `public-audit-log-${createHash("sha256").update(real).digest("hex").slice(0, 16)}`;
  const socket = process.platform === "win32" ? `\\\\.\\pipe\\${name}` : join(tmpdir(), name);
  if (await listens(socket)) return;
  if (!await answers(socket)) {
    fs.rmSync(socket, { force: true });
    if (await listens(socket)) return;
  }
  refuse(`${path} is in use: wait until the other process has ended.`);
}

function listens(socket: string): Promise<boolean> {
  const server = createServer((connection) => connection.destroy()).unref();
  return new Promise((resolve, reject) => {
    server.once("error", (error) => isError(error, "EADDRINUSE") ? resolve(false) : reject(error));
    server.listen(socket, () => resolve(true));
  });
}

function answers(socket: string): Promise<boolean> {
  return new Promise((resolve) => {
    const connection = connect(socket, () => (connection.destroy(), resolve(true)));
    connection.once("error", () => resolve(false));
  });
}

/** Whether an error of the system has this code. */
export function isError(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
