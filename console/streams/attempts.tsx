import { Link } from "@tanstack/react-router";
import { useState } from "react";
import type { Attempt, Rejected, StreamDetail } from "../data/stream_detail.ts";
import type { Stream } from "../data/streams.ts";
import { Copyable } from "../shared/copy.tsx";
import { count, dayOf, formatTime } from "../shared/days.ts";
import { Dialog } from "../shared/dialog.tsx";
import { Lead, State, TextButton, Time } from "../shared/parts.tsx";
import { type Column, Table } from "../shared/table.tsx";
import { cure } from "./cures.ts";
import { outcomeOf } from "./stream_words.ts";

/** More are long on a phone. */
const SHOWN = 20;

/** The last attempts of a stream, newest first. A row opens. */
export function Attempts({ stream, attempts }: Omit<StreamDetail, "rejected">) {
  const [opened, setOpened] = useState<Attempt | null>(null);
  if (attempts.length === 0) return <Lead>None yet.</Lead>;
  return (
    <>
      <Table
        label="Last attempts"
        columns={[...attemptColumns(setOpened)]}
        rows={attempts.slice(0, SHOWN)}
        idOf={({ at }) => at}
        onPress={setOpened}
      />
      {opened && <OneAttempt stream={stream} attempt={opened} onClose={() => setOpened(null)} />}
    </>
  );
}

interface OneAttemptProps {
  stream: Stream;
  attempt: Attempt;
  onClose: () => void;
}

function OneAttempt({ stream, attempt, onClose }: OneAttemptProps) {
  const { at, bytes, status, error } = attempt;
  const title = `Attempt of ${formatTime(at).slice(0, 19)} UTC`;
  return (
    <Dialog title={title} isBusy={false} onClose={onClose}>
      <p>{whatOf(attempt)}, {formatBytes(bytes)}. {outcomeOf(attempt)}.</p>
      {error && <strong>{cure({ ...stream.destination, ...attempt })}</strong>}
      {error && <Copyable title={status === null ? "Reason" : "Answer"} text={error} />}
    </Dialog>
  );
}

const attemptColumns = (onOpen: (attempt: Attempt) => void): Column<Attempt>[] => [
  {
    name: "Time (UTC)",
    width: "160px",
    isRowHeader: true,
    cell: (attempt) => (
      <TextButton onClick={() => onOpen(attempt)}>
        <Time value={attempt.at} />
      </TextButton>
    ),
  },
  { name: "Sent", width: "150px", value: whatOf },
  {
    name: "Result",
    cell: ({ error, status, ms }) => (
      <State
        name={`${status ?? "no answer"}, ${ms.toLocaleString("en")} ms`}
        colour={error ? "var(--bad)" : "var(--good)"}
      />
    ),
    hint: ({ error }) => error,
  },
];

/** Says what an attempt was about. */
function whatOf({ what, entries }: Attempt): string {
  if (what === "test") return "Test";
  if (what === "seals") return count(entries, "seal");
  return count(entries, "entry", "entries");
}

function formatBytes(bytes: number): string {
  return bytes < 1000 ? `${bytes} B` : `${Math.round(bytes / 1000).toLocaleString("en")} kB`;
}

/** The entries that a destination rejected, each alone. */
export function RejectedEntries({ entries }: { entries: Rejected[] }) {
  return <Table label="Rejected entries" columns={REJECTED} rows={entries} idOf={({ id }) => id} />;
}

const REJECTED: Column<Rejected>[] = [
  {
    name: "Entry",
    width: "160px",
    isRowHeader: true,
    cell: ({ id, created_at }) => {
      const day = dayOf(created_at);
      return (
        <Link
          from="/$organizationId/streams/$streamId"
          to="/$organizationId/log"
          search={{ start: day, end: day, entry: id, at: created_at }}
        >
          <Time value={created_at} />
        </Link>
      );
    },
  },
  {
    name: "Answer",
    cell: ({ answer }) => <bdi>{answer}</bdi>,
  },
];
