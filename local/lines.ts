import { createInterface } from "node:readline";
import { Readable } from "node:stream";

/** Calls back with each line of a process's output, line break included; resolves at the end. */
export async function forEachLine(
  stream: ReadableStream<Uint8Array>,
  callback: (line: string) => void,
): Promise<void> {
  for await (const line of createInterface(Readable.from(stream))) callback(`${line}\n`);
}
