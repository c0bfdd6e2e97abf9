import { appendFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { byTimeAndId } from "../supabase/functions/_shared/entry_lines.ts";
import { linesOf } from "./files.ts";

/** So many files are merged at once. Some systems let a process open 256. */
const MOST_MERGED = 64;
const BATCH = 1000;
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

interface Sorted {
  file: string;
  last: string;
}

/** Sorts the lines of days and drops repeats, on the disk: memory holds what is added at once, however large a day is. */
export class DaySorter {
  /** How many lines were dropped, because they were there already. */
  repeated = 0;
  // The system lets nobody else read it.
  #folder = mkdtempSync(join(tmpdir(), "public-audit-log-"));
  #days = new Map<string, Sorted[]>();
  #files = 0;
  // Whoever stops the command leaves no entries there.
  #stop = (signal: NodeJS.Signals) => {
    this.end();
    process.kill(process.pid, signal);
  };

  constructor() {
    for (const signal of SIGNALS) process.on(signal, this.#stop);
  }

  /** Takes lines of a day, in any order. Those of a sorted file all get into one file. */
  add(day: string, lines: string[]): void {
    const sorted = [...new Set(lines)].sort(byTimeAndId);
    this.repeated += lines.length - sorted.length;
    const files = this.#days.get(day) ?? [];
    this.#days.set(day, files);
    let file = files.find(({ last }) => byTimeAndId(last, sorted[0] ?? "") < 0);
    if (!file) files.push(file = this.#newFile());
    append(file, sorted);
  }

  /** Returns a file with the lines of a day; `undefined` if it has none. */
  async sort(day: string): Promise<string | undefined> {
    const files = this.#days.get(day) ?? [];
    while (files.length > 1) {
      const parts = files.splice(0, MOST_MERGED);
      const whole = this.#newFile();
      let batch: string[] = [];
      for await (const line of merged(parts)) {
        if (line === (batch.at(-1) ?? whole.last)) {
          this.repeated++;
          continue;
        }
        if (batch.length === BATCH) {
          append(whole, batch);
          batch = [];
        }
        batch.push(line);
      }
      append(whole, batch);
      for (const { file } of parts) rmSync(file);
      files.push(whole);
    }
    return files[0]?.file;
  }

  end(): void {
    for (const signal of SIGNALS) process.off(signal, this.#stop);
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #newFile(): Sorted {
    return { file: join(this.#folder, `${this.#files++}`), last: "" };
  }
}

function append(sorted: Sorted, lines: string[]): void {
  appendFileSync(sorted.file, lines.map((line) => `${line}\n`).join(""));
  sorted.last = lines.at(-1) ?? sorted.last;
}

async function* merged(files: Sorted[]): AsyncGenerator<string> {
  const sources = files.map(({ file }) => linesOf(file));
  const next = await Promise.all(sources.map((source) => source.next()));
  for (;;) {
    let least = -1;
    let line = "";
    for (const [n, { value, done }] of next.entries()) {
      if (done || least >= 0 && byTimeAndId(line, value) <= 0) continue;
      [least, line] = [n, value];
    }
    const source = sources[least];
    if (!source) return;
    yield line;
    next[least] = await source.next();
  }
}
