import { Button } from "@mantine/core";
import { getRouteApi, Link } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import type { Attempt, Rejected, StreamDetail } from "../data/stream_detail.ts";
import type { Stream } from "../data/streams.ts";
import { Copyable } from "../shared/copy.tsx";
import { count, dayOf, formatTime } from "../shared/days.ts";
import { Dialog } from "../shared/dialog.tsx";
import { Lead, State, Time } from "../shared/parts.tsx";
import { type Column, Table } from "../shared/table.tsx";
import { cure } from "./cures.ts";
import { outcomeOf } from "./stream_words.ts";
import styles from "./streams.module.css";

const route = getRouteApi("/$organizationId/streams/$streamId");

/** More are shown when asked for: they are long on a phone. */
const IN_SIGHT = 10;

/** The last attempts of a stream, newest first. The address names the one that is open. */
export function Attempts({ stream, attempts }: Omit<StreamDetail, "rejected">) {
  const navigate = route.useNavigate();
  const { attempt } = route.useSearch();
  const [areAll, setAreAll] = useState(false);
  const opened = attempts.find(({ at }) => at === attempt);
  if (attempts.length === 0) return <Lead>None yet.</Lead>;
  const shown = areAll ? attempts : attempts.slice(0, IN_SIGHT);
  return (
    <>
      <Table
        label="Last attempts"
        columns={ATTEMPTS}
        rows={shown}
        idOf={({ at }) => at}
        onPress={({ at }) => navigate({ search: { attempt: at } })}
      />
      {shown.length < attempts.length && (
        <Button mr="auto" onClick={() => setAreAll(true)}>Show all {attempts.length}</Button>
      )}
      {opened && (
        <OneAttempt
          stream={stream}
          attempt={opened}
          onClose={() => navigate({ search: {} })}
        />
      )}
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
  return (
    <Dialog
      title={`Attempt of ${formatTime(at).slice(0, 19)} UTC`}
      isBusy={false}
      onClose={onClose}
    >
      <dl className={styles.facts}>
        <Fact name="Sent">{whatOf(attempt)}, {formatBytes(bytes)}</Fact>
        <Fact name="To">
          <code>{stream.destination.url}</code>
        </Fact>
        <Fact name="Result">{outcomeOf(attempt)}</Fact>
        {error && <Fact name="What to do">{cure({ ...stream.destination, ...attempt })}</Fact>}
      </dl>
      {error && <Copyable title={status === null ? "Reason" : "Answer"} text={error} />}
    </Dialog>
  );
}

export function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

const ATTEMPTS: Column<Attempt>[] = [
  {
    name: "Time (UTC)",
    width: "160px",
    isRowHeader: true,
    cell: ({ at }) => (
      <Link
        from="/$organizationId/streams/$streamId"
        to="."
        search={{ attempt: at }}
      >
        <Time value={at} />
      </Link>
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
