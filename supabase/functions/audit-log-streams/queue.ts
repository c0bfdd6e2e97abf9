import * as z from "zod";
import type { Batch, Settings } from "./destinations/destination.ts";

const Header = z.object({
  lease: z.string(),
  organization_id: z.string(),
  /** What the organization's readers know it by. */
  shown_id: z.string(),
  stream_id: z.string(),
  what: z.enum(["entries", "seals", "test"]),
  /** Its entries were set aside once, and somebody wants them sent again. */
  is_again: z.boolean().default(false),
  /** Whatever is wrong with it, only this stream must fail: an error here would end the round for all of them. */
  destination: z.custom<Settings>((value) => z.looseObject({}).safeParse(value).success),
  /** The secret, and the one before it while both sign. */
  sealed: z.string().nullable(),
  sealed_before: z.string().nullable(),
  attempt: z.int(),
  number: z.int(),
  batch_name: z.string(),
});
const Other = z.object({
  /** Why nothing is sent from here. */
  stopped: z.string().optional(),
  /** Whether more streams are due than were looked at. */
  more: z.boolean().optional(),
});

/** A batch that this function has the lease of. */
export type Leased = z.infer<typeof Header> & Pick<Batch, "lines">;

export type Taken = { batch: Leased } | z.infer<typeof Other>;

/** What became of a batch. */
export interface Outcome {
  decision: "delivered" | "refused" | "wait" | "gone";
  /** Of a batch that is delivered: the entries that it alone cannot take. */
  set_aside?: { id: string; created_at: string; reason: string }[];
  status?: number;
  error?: string;
  wait_s?: number;
  bytes: number;
  ms: number;
}

export interface QueueOptions {
  url: string;
  secretKey: string;
  /** How long nobody else gets a batch: longer than it may take to deliver one. */
  leaseSeconds?: number;
  mostBytes?: number;
}

/** How long the database may take, in milliseconds. */
const TIMEOUT = 15_000;

/** The streams with something to deliver, in the database. Every call throws an error if it fails. */
export class Queue {
  readonly #options: QueueOptions;
  readonly #limits: { lease_seconds: number; most_bytes: number };

  constructor(options: QueueOptions) {
    this.#options = options;
    const { leaseSeconds = 40, mostBytes = 900_000 } = options;
    this.#limits = { lease_seconds: leaseSeconds, most_bytes: mostBytes };
  }

  /** Takes a batch of whichever stream is next. `onlyQuick`: none whose destination failed or was slow. */
  async take(onlyQuick: boolean): Promise<Taken> {
    const { url: project_url } = this.#options;
    const parameters = { project_url, ...this.#limits, only_quick: onlyQuick };
    return parse(await this.#call("take_batch", parameters));
  }

  /** Stores what became of a batch. Returns the stream's next batch if it is wanted and there is one. */
  async settle(batch: Leased, outcome: Outcome, wantsMore: boolean): Promise<Taken> {
    const parameters = { ...idOf(batch), outcome, ...this.#limits, wants_more: wantsMore };
    return parse(await this.#call("settle_batch", parameters));
  }

  /** Returns the lines of the batch with so many entries, more or less than it had, under the same lease, which begins again. */
  async recut(batch: Leased, most: number): Promise<string[]> {
    const text = await this.#call("recut_batch", { ...idOf(batch), most });
    const [, ...lines] = text.split("\n");
    if (lines.length === 0) throw new Error("the batch is not there any more");
    return lines;
  }

  async #call(name: string, parameters: Record<string, unknown>): Promise<string> {
    const { url, secretKey } = this.#options;
    const response = await fetch(`${url}/rest/v1/rpc/${name}`, {
      method: "POST",
      headers: {
        apikey: secretKey,
        Authorization: `Bearer ${secretKey}`,
        "Content-Type": "application/json",
        "Content-Profile": "audit_log",
        Accept: "application/vnd.public-audit-log+ndjson",
      },
      body: JSON.stringify(parameters),
      signal: AbortSignal.timeout(TIMEOUT),
    });
    const text = await response.text();
    // An error of the Data API has no entries.
    if (!response.ok) throw new Error(`${name} failed: ${response.status} ${text.slice(0, 200)}`);
    return text;
  }
}

function idOf({ organization_id, stream_id, lease }: Leased) {
  return { organization_id, stream_id, lease };
}

/** Parses what the queue answers. The first line says what it is; nobody parses the others, entries, on their way. */
export function parse(text: string): Taken {
  const end = text.indexOf("\n");
  if (end < 0) return Other.parse(JSON.parse(text));
  const header = Header.parse(JSON.parse(text.slice(0, end)));
  return { batch: { ...header, lines: text.slice(end + 1).split("\n") } };
}
