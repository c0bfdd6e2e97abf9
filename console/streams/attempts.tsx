import { Group } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { Attempt, Rejected, StreamDetail } from "../data/stream_detail.ts";
import { Copyable } from "../shared/copy.tsx";
import { count, dayOf } from "../shared/days.ts";
import { Lead, State, Time } from "../shared/parts.tsx";
import { cure } from "./cures.ts";
import { outcomeOf } from "./stream_words.ts";

/** More are long on a phone. */
const SHOWN = 20;

export function Attempts({ stream, attempts }: Omit<StreamDetail, "rejected">) {
  if (attempts.length === 0) return <Lead>None yet.</Lead>;
  return (
    <div>
      {attempts.slice(0, SHOWN).map((attempt) => {
        const { at, bytes, ms, status, error } = attempt;
        return (
          <details key={at}>
            <summary>
              <Group component="span" display="inline-flex" gap="0 16px" maw="calc(100% - 16px)">
                <Time value={at} />
                {whatOf(attempt)}
                <State
                  name={`${status ?? "no answer"}, ${ms.toLocaleString("en")} ms`}
                  colour={error ? "var(--bad)" : "var(--good)"}
                />
              </Group>
            </summary>
            <p>{count(bytes, "byte")}. {outcomeOf(attempt)}.</p>
            {error && <strong>{cure({ ...stream.destination, ...attempt })}</strong>}
            {error && <Copyable title={status === null ? "Reason" : "Answer"} text={error} />}
          </details>
        );
      })}
    </div>
  );
}

function whatOf({ what, entries }: Attempt): string {
  if (what === "test") return "Test";
  if (what === "seals") return count(entries, "seal");
  return count(entries, "entry", "entries");
}

export function RejectedEntries({ entries }: { entries: Rejected[] }) {
  return entries.map(({ id, created_at, answer }) => (
    <div key={id}>
      <Link
        from="/$organizationId/streams/$streamId"
        to="/$organizationId/log"
        search={{ start: dayOf(created_at), end: dayOf(created_at), entry: id, at: created_at }}
      >
        <Time value={created_at} />
      </Link>{" "}
      <bdi>{answer}</bdi>
    </div>
  ));
}
