import { appendFileSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { byTimeAndId } from "../supabase/functions/_shared/entry_lines.ts";
import { refuse } from "./client.ts";

/** The most that is sorted at once, in bytes: an hour with some 600,000 entries. */
const LARGEST_HOUR = 256 * 1024 ** 2;
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Sorts lines and drops repeats, with a file for each hour on the disk: memory holds one hour, however long a day is. */
export class DaySorter {
  /** How many lines were dropped, because they were there already. */
  repeated = 0;
  /** The hours of each day that have lines. */
  #hours = new Map<string, Set<string>>();
  // The system lets nobody else read it.
  #folder = mkdtempSync(join(tmpdir(), "public-audit-log-"));
  // Whoever stops the command leaves no entries there.
  #stop = (signal: NodeJS.Signals) => {
    this.end();
    process.kill(process.pid, signal);
  };

  constructor() {
    for (const signal of SIGNALS) process.on(signal, this.#stop);
  }

  /** Takes lines of an hour, such as 2026-11-20T15, in any order. */
  add(hour: string, lines: string[]): void {
    const day = hour.slice(0, 10);
    this.#hours.set(day, (this.#hours.get(day) ?? new Set()).add(hour));
    appendFileSync(join(this.#folder, hour), textOf(lines));
  }

  /** Gives the text of a day, hour by hour. */
  *sorted(day: string): Generator<string> {
    for (const hour of [...this.#hours.get(day) ?? []].sort()) {
      const file = join(this.#folder, hour);
      if (statSync(file).size > LARGEST_HOUR) {
        refuse(`${hour}:00 has more than 256 MB of entries: compare this day with sha256sum.`);
      }
      const given = readFileSync(file, "utf8").split("\n").slice(0, -1);
      const lines = [...new Set(given)].sort(byTimeAndId);
      this.repeated += given.length - lines.length;
      yield textOf(lines);
    }
  }

  end(): void {
    for (const signal of SIGNALS) process.off(signal, this.#stop);
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

function textOf(lines: string[]): string {
  return lines.map((line) => `${line}\n`).join("");
}
