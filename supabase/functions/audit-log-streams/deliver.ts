import { parse, sendAndJudge, shown, type Verdict } from "./destinations/destination.ts";
import { destinationOf } from "./destinations/index.ts";
import type { Leased, Outcome } from "./queue.ts";
import { type Keys, open, purposeOf } from "./sealed.ts";
import { send, type SendOptions } from "./send.ts";

export interface DeliverOptions extends SendOptions {
  keys: Keys;
  /** For all of a batch, with looking up names, TLS and reading the answer. */
  timeoutMs: number;
}

/** Sends a batch once, and says what became of it. It never throws. */
export async function deliver(batch: Leased, options: DeliverOptions): Promise<Outcome> {
  const start = performance.now();
  const sent: Pick<Outcome, "bytes" | "status"> = { bytes: 0 };
  async function attempt(): Promise<Verdict> {
    const secrets = await openSecrets(batch, options.keys);
    const signal = AbortSignal.timeout(options.timeoutMs);
    return await sendAndJudge(destinationOf(batch.destination), batch, secrets, async (request) => {
      sent.bytes = request.body.length;
      // It is of the request before, which asked for a token.
      delete sent.status;
      const answer = await send(request, options, signal);
      sent.status = answer.status;
      return answer;
    });
  }
  const { waitS, ...verdict }: Verdict & { code?: string } = await attempt().catch((error) => ({
    decision: "wait",
    error: reasonOf(error, options),
    code: String(error?.name),
  }));
  return {
    code: verdict.decision,
    ...verdict,
    rejected: rejectedIn(verdict, batch),
    ...waitS !== undefined && { wait_s: Math.ceil(waitS) },
    ...sent,
    ms: Math.round(performance.now() - start),
  };
}

/** The entries of a batch that its destination alone rejects. */
function rejectedIn({ decision, error = "", ...verdict }: Verdict, { lines }: Leased) {
  const isAlone = decision === "rejected" && lines.length === 1;
  const rejected = isAlone ? [{ n: 0, reason: error }] : verdict.rejected ?? [];
  return rejected.map(({ n, reason }) => {
    const { id, time } = parse(lines[n] ?? "");
    return { id, created_at: time, answer: shown(reason) };
  });
}

function reasonOf(error: Error, { timeoutMs }: DeliverOptions): string {
  if (error?.name === "TimeoutError") {
    return `there was no whole answer within ${timeoutMs / 1000} s`;
  }
  return shown(String(error?.message ?? error));
}

async function openSecrets(batch: Leased, keys: Keys): Promise<string[]> {
  const { sealed, sealed_before, organization_id, destination } = batch;
  const purpose = purposeOf(organization_id, destination);
  const secrets = sealed === null ? [] : [await open(sealed, keys, purpose)];
  if (sealed_before === null) return secrets;
  // Without the one before, as after a change of the host, the new one still signs.
  const before = await open(sealed_before, keys, purpose).then((text) => [text], () => []);
  return [...secrets, ...before];
}
