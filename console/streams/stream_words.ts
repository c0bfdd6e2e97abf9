import type { Attempt } from "../data/stream_detail.ts";
import { promise, type Stream } from "../data/streams.ts";
import { formatRelative, formatSeconds, secondsSince } from "../shared/days.ts";
import type { StateProps } from "../shared/parts.tsx";
import { kindOf } from "./kinds.ts";

export const STATES: Record<Stream["state"], StateProps> = {
  testing: { name: "Testing", colour: "var(--soon)" },
  test_failed: { name: "Test failed", colour: "var(--bad)" },
  catching_up: { name: "Catching up", colour: "var(--accent)" },
  up_to_date: { name: "Up to date", colour: "var(--good)" },
  retrying: { name: "Retrying", colour: "var(--soon)" },
  failing: { name: "Failing", colour: "var(--bad)" },
  paused: { name: "Paused", colour: "var(--waiting)" },
  stalled: { name: "Waiting for the sender", colour: "var(--bad)" },
  restored: { name: "Stopped as a copy", colour: "var(--bad)" },
};

export function explainState(stream: Stream): string {
  const { state, state_since, entries, delivered_at, paused_by, paused_why } = stream;
  switch (state) {
    case "testing":
      return "A test entry is on its way. It takes a minute at most, and the log follows.";
    case "test_failed":
      return `Nothing is sent before a test entry is accepted.${nextTry(stream)} ${
        promise(stream)
      }`;
    case "catching_up":
      return "Sends the entries that are there already.";
    case "up_to_date":
      if (entries === 0) return "It waits for the next entry.";
      return `Every entry is delivered${
        delivered_at ? `, the last one ${formatRelative(delivered_at)}` : ""
      }.`;
    case "retrying":
      return `The last attempt failed.${nextTry(stream)} ${promise(stream)}`;
    case "failing":
      return `It has ${
        delivered_at
          ? `delivered nothing for ${formatSeconds(secondsSince(delivered_at))}`
          : "never delivered"
      }.${nextTry(stream)} ${promise(stream)}`;
    case "paused": {
      const when = state_since ? ` ${formatRelative(state_since)}` : "";
      return `Stopped${when}${paused_by ? ` by ${paused_by}` : ""}${
        paused_why ? `: ${paused_why}` : ""
      }. ${promise(stream)} ${kindOf(stream)?.caution ?? ""}`;
    }
    case "stalled":
      return "Nothing was sent to this destination for five minutes. Ask whoever runs the " +
        `audit log to check audit-log-streams and its scheduled call. ${promise(stream)}`;
    case "restored":
      return "This database is not the one that sent before: it may be a copy. " +
        "If it should send, ask whoever runs it to call adopt_streams().";
  }
}

function nextTry({ next_try_at }: Stream): string {
  if (!next_try_at) return "";
  return secondsSince(next_try_at) > 0
    ? " The next try is due."
    : ` Next try ${formatRelative(next_try_at)}.`;
}

/** What an attempt came to. An answer also says that the address was found, and that TLS works. */
export function outcomeOf({ status, ms }: Pick<Attempt, "status" | "ms">): string {
  const time = `${ms.toLocaleString("en")} ms`;
  return status === null
    ? `No answer in ${time}`
    : `Address found, TLS works, ${status} in ${time}`;
}
