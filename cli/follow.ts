import { setTimeout as sleep } from "node:timers/promises";
import { checkLine, splitPage } from "../supabase/functions/_shared/entry_lines.ts";
import { boundedS } from "../supabase/functions/audit-log-streams/destinations/destination.ts";
import { type ApiOptions, ask, LONGEST_RETRY_MS, messageOf, persist, Temporary } from "./client.ts";

interface FeedPage {
  /** One JSON object each, as the API wrote it: numbers keep all their digits. */
  lines: string[];
  /** How many entries match in all; at most so many, if more than 25,000 are looked through for `object`. */
  total: number;
  /** Save it when you have dealt with these entries, and give it as `after`. */
  cursor: string;
  hasMore: boolean;
}

export interface FollowOptions extends ApiOptions {
  /** Which entries to read, as the API's parameters say it; by default those of all days, future ones too. */
  selection?: Record<string, string>;
  /** The `cursor` of the last page that you dealt with; by default the beginning of the log. */
  after?: string;
}

/**
 * Gives every entry once, page by page, from `after` on. Save `page.cursor` when you have dealt with a page: then
 * the command may be killed at any moment.
 *
 * @throws {AuditLogError} when asking again would not help.
 */
export async function* follow(options: FollowOptions): AsyncGenerator<FeedPage> {
  const { wait = sleep } = options;
  for (let after = options.after ?? "beginning";;) {
    const url = new URL(options.url);
    url.search = `${new URLSearchParams({ ...options.selection, limit: "1000", after })}`;
    const { headers, page } = await persist(async () => {
      const { headers, body } = await ask(url, options);
      const page = parsePage(body);
      if (page.hasMore && page.cursor === after) {
        throw new Temporary(`${url.host}: the same page as before (does a proxy cache answers?)`);
      }
      return { headers, page };
    }, options);
    yield page;
    after = page.cursor;
    if (page.hasMore) continue;
    if (!options.goesOn) return;
    await wait(pollMsOf(headers.get("RateLimit-Policy")));
  }
}

/** Parses a page and keeps the text of each entry. Refuses a text that is cut off. */
function parsePage(body: string): FeedPage {
  try {
    const { fields, lines } = splitPage(body);
    const { total, cursor, has_more: hasMore } = fields;
    if (typeof cursor !== "string" || typeof hasMore !== "boolean" || typeof total !== "number") {
      throw new TypeError("not a page that after= gives");
    }
    lines.forEach(checkLine);
    return { lines, total, cursor, hasMore };
  } catch (error) {
    throw new Temporary(`Not a whole page (is AUDIT_LOG_URL right?): ${messageOf(error)}`);
  }
}

/** How long to wait to use half of the quota of a `RateLimit-Policy`, which a proxy may have removed. */
function pollMsOf(policy: string | null): number {
  const [, quota, seconds] = policy?.match(/;q=(\d+);w=(\d+)/) ?? [];
  return 1_000 * boundedS(2 * Number(seconds) / Number(quota) || LONGEST_RETRY_MS / 1_000);
}
