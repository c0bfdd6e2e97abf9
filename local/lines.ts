import { createInterface } from "node:readline";
import { Readable } from "node:stream";

/** Gives each line that a process prints, with its end, to a callback; resolves at the stream's end. */
export async function forEachLine(
  stream: ReadableStream<Uint8Array>,
  callback: (line: string) => void,
): Promise<void> {
  for await (const line of createInterface(Readable.from(stream))) callback(`${line}\n`);
}
