import { readFileSync } from "node:fs";
import { visible } from "../supabase/functions/_shared/visible.ts";
import {
  hide,
  partsOf,
  shown,
} from "../supabase/functions/audit-log-streams/destinations/destination.ts";
import { AuditLogError, EXIT, persist, refuse, secureUrl, send } from "./client.ts";
import { lock, readProgress, writeWhole } from "./files.ts";
import { follow, type FollowOptions } from "./follow.ts";

/**
 * Takes lines. Resolves when the other side has confirmed them; throws `Temporary` to be called again, and `Rejected` if
 * it may take fewer.
 */
export type Deliver = (lines: string[]) => Promise<void>;

class Rejected extends AuditLogError {}

/** How much was delivered, as in the state file. */
interface Progress {
  after: string;
  /** Where it was delivered to; none if `follow` printed it. */
  to?: string | undefined;
  entries: number;
}

/** Delivers each entry at least once: saves the cursor after a page was confirmed. Returns how many. */
export async function forward(
  deliver: Deliver,
  options: FollowOptions & { to?: string; state?: string | undefined },
): Promise<number> {
  const { to, state } = options;
  if (state) await lock(state);
  const saved = state ? readProgress<Progress>(state) : undefined;
  if (saved && saved.to !== to) {
    refuse(
      `${state} is the state of ${saved.to ? `forward --to=${saved.to}` : "follow"}: give each a ` +
        '--state of its own. If the collector has a new URL, correct "to" in that file.',
    );
  }
  let progress: Progress = saved ?? { after: "beginning", entries: 0 };
  const before = progress.entries;
  /** Since the collector last took an entry. */
  let rejected: Rejected[] = [];

  /** Delivers a page in halves, down to the entries that are rejected. After ten in a row, the last of the page decides. */
  async function deliverPage(lines: string[], last = lines.slice(-1)): Promise<number> {
    try {
      await persist(() => deliver(lines), options);
      rejected = [];
      return lines.length;
    } catch (error) {
      if (!(error instanceof Rejected)) throw error;
      if (lines.length > 1) {
        const half = lines.length / 2;
        const first = await deliverPage(lines.slice(0, half), last);
        return first + await deliverPage(lines.slice(half), last);
      }
      const { id, created_at } = JSON.parse(lines[0] ?? "");
      const why = error.message.replace("\n", " ");
      options.say?.(visible(`The entry ${id} of ${created_at} is left out. ${why}`));
      if (rejected.push(error) === 10) {
        await persist(() => deliver(last), options);
        rejected = [];
      }
      return 0;
    }
  }

  for await (const { lines, cursor, hasMore } of follow({ ...options, after: progress.after })) {
    // Nothing new: the saved cursor leads to the same entries, so it need not be replaced.
    if (lines.length === 0 && !hasMore) continue;
    const delivered = lines.length > 0 ? await deliverPage(lines) : 0;
    progress = { after: cursor, entries: progress.entries + delivered, to };
    // Otherwise it may be the collector's fault: then they must come again.
    if (state && rejected.length === 0) writeWhole(state, JSON.stringify(progress));
  }
  for (const why of rejected) throw why;
  return progress.entries - before;
}

/** Posts pages as NDJSON to the address that `--to` names, with the headers in a file. */
export function poster(to: string, file?: string): Deliver {
  const url = secureUrl("--to", to);
  const headers = file ? readHeaders(file) : new Headers();
  if (!headers.has("Content-Type")) headers.set("Content-Type", "application/x-ndjson");
  return async (lines) => {
    const body = lines.map((line) => `${line}\n`).join("");
    const answer = await send(url, { method: "POST", headers, body });
    if (answer.status >= 200 && answer.status < 300) return;
    const secrets = [...headers.values()];
    const said = shown(hide(answer.body, [...secrets, ...partsOf(secrets)]));
    const message =
      `${url.host} refuses the entries (${answer.status}): correct --to, --headers or the collector.\n${said}`;
    if ([400, 413, 422].includes(answer.status)) throw new Rejected(EXIT.refused, message);
    refuse(message);
  };
}

/** Reads headers, one a line. They may be secrets: an error names only the line. */
function readHeaders(file: string): Headers {
  const headers = new Headers();
  for (const [n, line] of readFileSync(file, "utf8").split(/\r?\n/).entries()) {
    if (line.trim() === "") continue;
    const [, name, value = ""] = line.match(/^([\w!#$%&'*+.^`|~-]+):([\t -~]*)$/) ?? [];
    if (!name) {
      refuse(
        `--headers: line ${n + 1} of ${file} is not a header. Write NAME: VALUE on each line.`,
      );
    }
    headers.append(name, value);
  }
  return headers;
}
