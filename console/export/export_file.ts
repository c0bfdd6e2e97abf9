import { csvHeader, csvRecord } from "../../supabase/functions/_shared/csv.ts";
import { type LogFilter, parseEntries, readActions, readFeed } from "../data/entries.ts";
import { targetOf } from "../log/facts.ts";

export type Format = "ndjson" | "csv";

/** Opens a file on the disk where the browser allows it, else a download. Null means that the person cancelled. */
export async function openFile(name: string): Promise<WritableStream<string> | null> {
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
    close: () => download(name, blob),
  });
}

export function download(name: string, blob: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

interface ExportOptions {
  filter: LogFilter;
  format: Format;
  signal: AbortSignal;
  /** Takes which part of the work is done, from 0 to 1. */
  onProgress: (share: number) => void;
}

/** Writes an export, and returns its number of entries. The next page is read when the file has taken the one before. */
export async function exportEntries(
  file: WritableStream<string>,
  { filter, format, signal, onProgress }: ExportOptions,
): Promise<number> {
  const catalogue = format === "csv" && await readActions(filter.organizationId, signal);
  const writtenLine = (line: string) => {
    if (!catalogue) return `${line}\n`;
    const [target] = parseEntries(`[${line}]`).map((entry) => targetOf(entry, catalogue));
    return csvRecord(line, false, target?.name ?? "");
  };
  let written = 0;
  let after = "beginning";
  const text = new ReadableStream<string>({
    start: (stream) => {
      if (catalogue) stream.enqueue(csvHeader("target"));
    },
    pull: async (stream) => {
      const { items, total, cursor, has_more } = await readPage(filter, after, signal);
      stream.enqueue(items.map(writtenLine).join(""));
      written += items.length;
      after = cursor;
      onProgress(total && written / total);
      if (!has_more) stream.close();
    },
  });
  await text.pipeTo(file, { signal });
  return written;
}

const RETRY_MS = 1_000;

/** Reads a page, and asks twice more if that fails. Otherwise one lost answer would cost a whole file. */
async function readPage(filter: LogFilter, after: string, signal: AbortSignal) {
  for (let retries = 2;; retries--) {
    try {
      return await readFeed(filter, after, signal);
    } catch (error) {
      if (retries === 0 || signal.aborted) throw error;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}
