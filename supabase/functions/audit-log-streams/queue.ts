import * as z from "zod";
import type { Settings, Verdict } from "./destinations/destination.ts";
import { MOST_ENTRIES } from "./destinations/index.ts";

const Taken = z.object({
  batch: z.object({
    lease: z.string(),
    organization_id: z.string(),
    stream_id: z.string(),
    what: z.enum(["entries", "seals", "test"]),
    /** As the API writes them. They are never parsed and rewritten: that would round long numbers, and break seals. */
    lines: z.array(z.string()),
    /** Whatever is wrong with it, only this stream must fail: an error here would end the run for all of them. */
    destination: z.custom<Settings>((value) => z.looseObject({}).safeParse(value).success),
    /** The secret, and the one before it while both sign. */
    sealed: z.string().nullable(),
    sealed_before: z.string().nullable(),
    /** Whether the last attempt failed or was slow. */
    is_troubled: z.boolean(),
    /** Grows with each batch, so that objects in a bucket sort. A repeat has the same. */
    number: z.int(),
    /** A hash of the stream's lines. A repeat of the same has the same. */
    name: z.string(),
    /** What the organization's readers know it by. */
    platform_id: z.string(),
  }).optional(),
  /** Why nothing is sent from here. */
  stopped: z.string().optional(),
  /** Whether more streams are due than were looked at. */
  more: z.boolean().optional(),
});

export type Taken = z.infer<typeof Taken>;
export type Leased = NonNullable<Taken["batch"]>;

export interface Outcome extends Pick<Verdict, "decision" | "error"> {
  /** The entries that the destination alone does not take. */
  rejected: { id: string; created_at: string; answer: string }[];
  status?: number;
  /** The decision, or the name of the error that there was instead of an answer. */
  code: string;
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

const TIMEOUT = 15_000;

export type Queue = ReturnType<typeof queueOf>;

/** The streams with something to deliver, in the database. Every call throws an error if it fails. */
export function queueOf(
  { url, secretKey, leaseSeconds = 40, mostBytes = 900_000 }: QueueOptions,
) {
  const limits = { seconds: leaseSeconds, bytes: mostBytes, entries: MOST_ENTRIES };
  async function call(name: string, parameters: Record<string, unknown>): Promise<Taken> {
    const response = await fetch(`${url}/rest/v1/rpc/${name}`, {
      method: "POST",
      headers: {
        apikey: secretKey,
        Authorization: `Bearer ${secretKey}`,
        "Content-Type": "application/json",
        "Content-Profile": "audit_log",
      },
      body: JSON.stringify({ ...parameters, limits }),
      signal: AbortSignal.timeout(TIMEOUT),
    });
    const text = await response.text();
    // An error of the Data API has no entries.
    if (!response.ok) throw new Error(`${name} failed: ${response.status} ${text.slice(0, 200)}`);
    return Taken.parse(JSON.parse(text));
  }
  return {
    /** Takes a batch of whichever stream is next; `with_troubled`: also of one whose last attempt failed or was slow. */
    take: (with_troubled: boolean) => call("take_batch", { project_url: url, with_troubled }),
    /** Stores what became of a batch. Returns the stream's next batch if it is wanted and there is one. */
    settle(batch: Leased, outcome: Outcome, wants_more: boolean) {
      const { organization_id, stream_id, lease } = batch;
      return call("settle_batch", { organization_id, stream_id, lease, outcome, wants_more });
    },
  };
}
