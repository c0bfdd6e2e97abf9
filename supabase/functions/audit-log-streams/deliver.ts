import {
  type Batch,
  encode,
  idOf,
  sendAndJudge,
  sha256,
  shown,
  timeOf,
  type Verdict,
} from "./destinations/destination.ts";
import { destinationOf } from "./destinations/index.ts";
import type { Leased, Outcome, Queue } from "./queue.ts";
import { type Keys, open, purposeOf } from "./sealed.ts";
import { send, type SendOptions } from "./send.ts";

/** How many entries are sent one by one to find out whether an entry or the destination is at fault. */
const NEIGHBOURS = 10;

export interface DeliverOptions extends SendOptions {
  queue: Pick<Queue, "recut">;
  keys: Keys;
  /** For all of a batch, with looking up names, TLS and reading the answer. */
  timeoutMs: number;
  /** For the neighbours of an entry that was refused. */
  neighboursTimeoutMs: number;
}

/** Sends a batch once, and says what became of it. It never throws. `signal` gives it up. */
export async function deliver(
  leased: Leased,
  options: DeliverOptions,
  signal: AbortSignal,
): Promise<Outcome> {
  const start = performance.now();
  const sent: Sent = { bytes: 0, lines: leased.lines };
  const verdict = await attempt(leased, options, signal, sent).catch((error) => ({
    decision: "wait" as const,
    error: shown(String(error?.message ?? error)),
  }));
  return {
    decision: verdict.decision,
    ...sent.status !== undefined && { status: sent.status },
    ..."error" in verdict && { error: verdict.error },
    ..."waitS" in verdict && verdict.waitS !== undefined && { wait_s: Math.ceil(verdict.waitS) },
    ..."setAside" in verdict && verdict.setAside && {
      set_aside: verdict.setAside.map(({ n, reason }) => {
        const line = sent.lines[n] ?? "";
        return { id: idOf(line), created_at: timeOf(line), reason: shown(reason) };
      }),
    },
    bytes: sent.bytes,
    ms: Math.round(performance.now() - start),
  };
}

/** What was sent, the last status, and the lines that the verdict is about. */
interface Sent {
  bytes: number;
  status?: number;
  lines: string[];
}

async function attempt(
  leased: Leased,
  options: DeliverOptions,
  signal: AbortSignal,
  sent: Sent,
): Promise<Verdict> {
  const { what, number, shown_id, is_again } = leased;
  const secrets = await openSecrets(leased, options.keys);
  const destination = destinationOf(leased.destination);

  async function sendLines(lines: string[], within: AbortSignal): Promise<Verdict> {
    const name = lines === leased.lines
      ? leased.batch_name
      : (await sha256(encode(lines.join("\n")))).slice(0, 16);
    const batch: Batch = { what, lines, number, name, shownId: shown_id };
    const verdict = await sendAndJudge(destination, batch, secrets, async (request) => {
      sent.bytes += request.body.length;
      const answer = await send(request, options, AbortSignal.any([signal, within]));
      sent.status = answer.status;
      return answer;
    });
    const setAside = verdict.decision === "delivered" && verdict.setAside || [];
    const [first] = setAside;
    // That may be the destination's fault. None is set aside before a neighbour is accepted.
    const isWhole = first && setAside.length === lines.length;
    return isWhole ? { decision: "refused", error: shown(first.reason) } : verdict;
  }

  const { mostEntries = Infinity } = destination;
  const isTooLong = what === "entries" && leased.lines.length > mostEntries;
  const lines = isTooLong ? await options.queue.recut(leased, mostEntries) : leased.lines;
  sent.lines = lines;
  const verdict = await sendLines(lines, deadline(options.timeoutMs));
  const isEntry = what === "entries" && lines.length === 1;
  if (verdict.decision !== "refused" || !isEntry) return verdict;
  // It stays set aside.
  if (is_again) return { decision: "delivered", setAside: [{ n: 0, reason: verdict.error }] };
  const neighbours = await options.queue.recut(leased, NEIGHBOURS);
  // Without the entry, another that was committed meanwhile comes before it.
  if (neighbours[0] !== lines[0]) return { ...verdict, decision: "wait" };
  sent.lines = neighbours;
  const within = deadline(options.neighboursTimeoutMs);
  return await tryNeighbours(verdict.error, neighbours, (line) => sendLines([line], within));
}

/**
 * Sends the entries after a single one that was refused, each alone. If one is accepted, the refused ones are at fault, and
 * are set aside. Otherwise nothing is skipped.
 */
async function tryNeighbours(
  error: string,
  lines: string[],
  sendOne: (line: string) => Promise<Verdict>,
): Promise<Verdict> {
  const setAside = [{ n: 0, reason: error }];
  for (const [n, line] of lines.entries()) {
    if (n === 0) continue;
    const verdict = await sendOne(line);
    if (verdict.decision === "refused") setAside.push({ n, reason: verdict.error });
    else if (verdict.decision !== "delivered") return verdict;
  }
  if (setAside.length < lines.length) return { decision: "delivered", setAside };
  return {
    decision: "wait",
    error: lines.length > 1 ? `every entry is refused: ${error}` : error,
  };
}

function deadline(ms: number): AbortSignal {
  const controller = new AbortController();
  const error = new Error(`there was no whole answer within ${ms / 1000} s`);
  Deno.unrefTimer(setTimeout(() => controller.abort(error), ms));
  return controller.signal;
}

async function openSecrets(leased: Leased, keys: Keys): Promise<string[]> {
  const { sealed, sealed_before, organization_id, destination } = leased;
  const purpose = purposeOf(organization_id, destination);
  const secrets = sealed === null ? [] : [await open(sealed, keys, purpose)];
  if (sealed_before === null) return secrets;
  // Without the one before, as after a change of the host, the new one still signs.
  const before = await open(sealed_before, keys, purpose).then((text) => [text], () => []);
  return [...secrets, ...before];
}
