import { type FeedPage, type LogFilter, readFeed } from "../log/data.ts";

export type Format = "ndjson" | "csv";

/** The columns that a CSV may have. */
export const COLUMNS = ["id", "created_at", "action", "user_email", "agent_name", "data"] as const;
export type ColumnName = typeof COLUMNS[number];

/** How long until a page that failed is asked for again. */
const RETRY_MS = 1_000;

/** What takes the text of an export. */
interface ExportFile {
  write(text: string): Promise<void>;
  /** Keeps what was written. */
  close(): Promise<void>;
  /** Forgets it. */
  abort(): Promise<void>;
}

/** A file on the disk where the browser lets the page write one, else a download; null if none is wanted. */
export async function openFile(name: string): Promise<ExportFile | null> {
  if (self.showSaveFilePicker) {
    try {
      const handle = await self.showSaveFilePicker({ suggestedName: name });
      return await handle.createWritable();
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") return null;
      throw error;
    }
  }
  // The browser keeps a Blob outside the page's memory, and on disk when it is large.
  let blob = new Blob();
  return {
    write: (text) => {
      blob = new Blob([blob, text]);
      return Promise.resolve();
    },
    close: () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(blob);
      link.download = name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
      return Promise.resolve();
    },
    abort: () => {
      blob = new Blob();
      return Promise.resolve();
    },
  };
}

export interface ExportOptions {
  filter: LogFilter;
  /** Of a CSV; without any, it is NDJSON. */
  columns?: readonly ColumnName[] | undefined;
  signal: AbortSignal;
  onProgress: (progress: { written: number; total: number }) => void;
}

/** Reads page after page until nothing is left, one in memory at a time. Returns how many entries. */
export async function exportTo(file: ExportFile, options: ExportOptions): Promise<number> {
  const { filter, columns, signal, onProgress } = options;
  if (columns) await file.write(`${columns.join(",")}\r\n`);
  let written = 0;
  for (let after = "beginning";;) {
    const { items, total, next, isCaughtUp } = await readPage(filter, after, signal);
    const text = items.map((item) => columns ? csvRecord(item, columns) : `${item}\n`);
    await file.write(text.join(""));
    written += items.length;
    onProgress({ written, total });
    if (isCaughtUp) return written;
    after = next;
  }
}

/** A page, asked for twice more when it fails: otherwise one lost answer would cost the whole export. */
async function readPage(
  filter: LogFilter,
  after: string,
  signal: AbortSignal,
  retries = 2,
): Promise<FeedPage> {
  try {
    return await readFeed(filter, after, signal);
  } catch (error) {
    if (retries === 0 || signal.aborted) throw error;
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    return readPage(filter, after, signal, retries - 1);
  }
}

/** A record as RFC 4180 has it. `data` stays as it is written: parsed, its long numbers would be rounded. */
function csvRecord(item: string, columns: readonly ColumnName[]): string {
  const mark = ',"data":';
  const end = item.indexOf(mark);
  const entry: Record<string, string> = JSON.parse(`${item.slice(0, end)}}`);
  const data = item.slice(end + mark.length, -1);
  const values = columns.map((name) => name === "data" ? data : entry[name] ?? "");
  return `${values.map((value) => `"${value.replaceAll('"', '""')}"`).join(",")}\r\n`;
}
