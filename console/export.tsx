import { Alert, Button, Modal, Progress, SegmentedControl, Stack } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import {
  AUDIT_LOG_URL,
  type FeedPage,
  type LogFilter,
  type Organization,
  readFeed,
} from "./data.ts";
import { count } from "./days.ts";
import { Copyable, Failure } from "./parts.tsx";

type Format = "ndjson" | "csv";

const COLUMNS = ["id", "created_at", "action", "user_email", "agent_name"] as const;

/** How long until a page that failed is asked for again. */
const RETRY_MS = 1_000;

export interface ExportProps {
  organization: Organization;
  filter: LogFilter;
  onClose: () => void;
}

/** Writes all entries of a filter to a file, each once, also while others arrive. */
export function Export({ organization, filter, onClose }: ExportProps) {
  const [format, setFormat] = useState<Format>("ndjson");
  const [progress, setProgress] = useState({ written: 0, total: 0 });
  const controller = useRef(new AbortController());
  const work = useMutation({
    mutationFn: async () => {
      controller.current = new AbortController();
      setProgress({ written: 0, total: 0 });
      const { start, end, action } = filter;
      const name = ["audit-log", start, end, action].filter(Boolean).join("_");
      const file = await openFile(`${name}.${format}`);
      // The person did not choose a file.
      if (!file) return null;
      try {
        const total = await exportTo(file, filter, format, controller.current.signal, setProgress);
        await file.close();
        return total;
      } catch (error) {
        await file.abort();
        if (controller.current.signal.aborted) return null;
        throw error;
      }
    },
  });
  useEffect(() => () => controller.current.abort(), []);
  const percent = progress.total ? Math.min(100, progress.written / progress.total * 100) : 0;
  const done = work.data ?? null;
  return (
    <Modal
      opened
      onClose={onClose}
      title="Export"
      size="lg"
      closeOnClickOutside={!work.isPending}
      closeOnEscape={!work.isPending}
      withCloseButton={!work.isPending}
    >
      <Stack gap="md">
        <p>
          All entries of <bdi>{organization.name}</bdi> from {filter.start} to {filter.end} (UTC)
          {filter.action
            ? (
              <>
                with the action <code>{filter.action}</code>
              </>
            )
            : ""}, oldest first.
        </p>
        <div className="row">
          <SegmentedControl
            aria-label="Format"
            size="xs"
            disabled={work.isPending}
            data={[{ value: "ndjson", label: "NDJSON" }, { value: "csv", label: "CSV" }]}
            value={format}
            onChange={(value) => setFormat(value === "csv" ? "csv" : "ndjson")}
          />
          <span className="hint">
            {format === "csv"
              ? "A spreadsheet runs values that begin with = + - @ as formulas: import all columns as text."
              : "One entry a line, byte for byte as the API answers."}
          </span>
        </div>
        {work.isPending && (
          <div>
            <Progress value={percent} aria-label="Exported" />
            <p className="hint" role="status">
              {progress.written.toLocaleString("en")} of {count(progress.total, "entry", "entries")}
            </p>
          </div>
        )}
        {done !== null && !work.isPending && (
          <Alert color="green" role="status">
            {count(done, "entry", "entries")} written: all there were at that moment.
          </Alert>
        )}
        <Failure error={work.error} />
        <div className="row end">
          {work.isPending
            ? <Button variant="default" onClick={() => controller.current.abort()}>Cancel</Button>
            : <Button onClick={() => work.mutate()}>Export {format.toUpperCase()}</Button>}
        </div>
        <Copyable
          title="The same with an API key, 1,000 entries at a time"
          label="curl"
          text={curl(filter, format)}
        />
      </Stack>
    </Modal>
  );
}

function curl({ start, end, action }: LogFilter, format: Format): string {
  const query = new URLSearchParams({ start, end, ...action ? { action } : {}, limit: "1000" });
  const accept = format === "ndjson" ? ` \\\n  -H "Accept: application/x-ndjson"` : "";
  return `curl "${AUDIT_LOG_URL}?${query}" \\\n  -H "Authorization: Bearer $API_KEY"${accept}`;
}

/** What takes the text of an export. */
interface ExportFile {
  write(text: string): Promise<void>;
  /** Keeps what was written. */
  close(): Promise<void>;
  /** Forgets it. */
  abort(): Promise<void>;
}

/** A file on the disk where the browser lets the page write one, else a download; null if none is wanted. */
async function openFile(name: string): Promise<ExportFile | null> {
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

/** Reads page after page until nothing is left, one in memory at a time. Returns how many entries. */
async function exportTo(
  file: ExportFile,
  filter: LogFilter,
  format: Format,
  signal: AbortSignal,
  onProgress: (progress: { written: number; total: number }) => void,
): Promise<number> {
  if (format === "csv") await file.write(`${COLUMNS.join(",")},data\r\n`);
  let written = 0;
  for (let after = "beginning";;) {
    const { items, total, next, isCaughtUp } = await readPage(filter, after, signal);
    const text = format === "csv" ? items.map(csvRecord) : items.map((item) => `${item}\n`);
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
function csvRecord(item: string): string {
  const data = ',"data":';
  const end = item.indexOf(data);
  const entry: Record<string, string> = JSON.parse(`${item.slice(0, end)}}`);
  const values = [...COLUMNS.map((name) => entry[name] ?? ""), item.slice(end + data.length, -1)];
  return `${values.map((value) => `"${value.replaceAll('"', '""')}"`).join(",")}\r\n`;
}
