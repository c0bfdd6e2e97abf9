import { CSV_HEADER, csvRecord } from "../../common/csv.ts";
import { type LogFilter, readFeed } from "../data/entries.ts";
import { retried } from "../data/call.ts";
import type { WorkOptions } from "./work.tsx";

/** What a file takes. */
type Written = string | Uint8Array<ArrayBuffer>;

export type Format = "ndjson" | "csv";

/** Opens a file on the disk where the browser allows it, else a download. Null means that the person cancelled. */
export async function openFile(name: string): Promise<WritableStream<Written> | null> {
  if (self.showSaveFilePicker) {
    try {
      const handle = await self.showSaveFilePicker({ suggestedName: name });
      return await handle.createWritable();
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") return null;
      throw error;
    }
  }
  // The browser keeps a Blob outside the page's memory, and a large one on disk.
  let blob = new Blob();
  return new WritableStream({
    write: (piece) => {
      blob = new Blob([blob, piece]);
    },
    close: () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(blob);
      link.download = name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    },
  });
}

export interface ExportOptions extends WorkOptions {
  filter: LogFilter;
  format: Format;
}

/** Writes an export, and returns its number of entries. The next page is read when the file has taken the one before. */
export async function exportEntries(
  file: WritableStream<Written>,
  { filter, format, signal, onProgress }: ExportOptions,
): Promise<number> {
  const isCsv = format === "csv";
  let written = 0;
  let after = "beginning";
  const text = new ReadableStream<string>({
    start: (stream) => {
      if (isCsv) stream.enqueue(CSV_HEADER);
    },
    pull: async (stream) => {
      const { items, total, cursor, has_more } = await retried(
        () => readFeed(filter, after, signal),
        signal,
      );
      stream.enqueue(
        items.map((item) => isCsv ? csvRecord(item) : `${item}\n`).join(""),
      );
      written += items.length;
      after = cursor;
      onProgress(total && written / total);
      if (!has_more) stream.close();
    },
  });
  await text.pipeTo(file, { signal });
  return written;
}
