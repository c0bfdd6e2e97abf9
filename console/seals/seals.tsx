import { Alert, Group } from "@mantine/core";
import { getRouteApi, Link } from "@tanstack/react-router";
import * as z from "zod/mini";
import { type LogDays, useLogDays } from "../log/data.ts";
import { Copy, Copyable } from "../shared/copy.tsx";
import { count } from "../shared/days.ts";
import { useOrganization } from "../shell/organization.ts";
import { Answer, Empty, Failure, Head, Hint, Lead, State, Time } from "../shared/parts.tsx";
import { daysOf, RANGE, RangePicker } from "../shared/range.tsx";
import { type Column, Table } from "../shared/table.tsx";
import { type Seal, SEAL_STATES, sealState, useLatestSeal } from "./data.ts";

export const SEALS_ADDRESS = z.object(RANGE);

const route = getRouteApi("/$organizationId/seals");

/** Each day with its seal. With a copy of it, an administrator proves later that the log is as it was. */
export function Seals() {
  const { id: organizationId } = useOrganization();
  const address = route.useSearch();
  const navigate = route.useNavigate();
  const latest = useLatestSeal(organizationId);
  const days = useLogDays({ organizationId, ...daysOf(address, "30d") });
  return (
    <>
      <Head title="Seals" />
      <Lead>
        Each night the finished days are sealed: a SHA-256 over their entries, chained to the seal
        before. Keep a copy of the latest one elsewhere. With it and an export you can show later
        that no entry of these days was changed.
      </Lead>
      <Failure error={latest.error} onRetry={latest.refetch} />
      {latest.data && <Latest seal={latest.data} />}
      <RangePicker
        address={address}
        preset="30d"
        onChange={(range) => navigate({ search: range })}
      />
      <Answer query={days} what="seals">
        {(data) => (
          <div aria-busy={days.isPlaceholderData}>
            <Deletion days={data} />
            <Days days={data} />
          </div>
        )}
      </Answer>
    </>
  );
}

function Latest({ seal: { sequence, day, seal } }: { seal: Seal }) {
  return (
    <Copyable
      title={`Latest seal, number ${sequence.toLocaleString("en")}, of ${day}`}
      label="latest seal"
      text={seal}
    />
  );
}

/** Says whether entries are deleted. */
function Deletion({ days: { holds, keepDays } }: { days: LogDays }) {
  return (
    <>
      {holds.length > 0 && (
        <Alert role="status" title="On hold: no entry is deleted" mb="sm">
          {holds.map(({ reason, held_by, held_at }) => (
            <div key={reason}>
              {reason}, by {held_by}, <Time value={held_at} />
            </div>
          ))}
        </Alert>
      )}
      {keepDays !== null && <Hint>Entries are deleted after {count(keepDays, "day", "days")}.
      </Hint>}
    </>
  );
}

function Days({ days }: { days: LogDays }) {
  const { counts, seals, altered } = days;
  const all = [...new Set([...counts.keys(), ...seals.keys(), ...altered])].sort().reverse();
  if (all.length === 0) {
    return <Empty title="Nothing to seal">These days have no entries. Choose others.</Empty>;
  }
  const columns: Column<string>[] = [
    { name: "Day (UTC)", width: "112px", isRowHeader: true, cell: (day) => <DayLink day={day} /> },
    {
      name: "State",
      width: "minmax(0, 1fr)",
      cell: (day) => {
        const { name, colour } = SEAL_STATES[sealState(day, days)];
        return <State colour={colour}>{name}</State>;
      },
      hint: (day) => {
        const sealed = seals.get(day)?.entries ?? 0;
        const isOther = sealState(day, days) === "sealed" && sealed !== (counts.get(day) ?? 0);
        return isOther &&
          `with ${count(sealed, "entry", "entries")}; the change is declared with the next seal`;
      },
    },
    {
      name: "Entries",
      width: "96px",
      isNumber: true,
      cell: (day) => (counts.get(day) ?? 0).toLocaleString("en"),
    },
    {
      name: "Sealed at (UTC)",
      width: "164px",
      cell: (day) => {
        const seal = seals.get(day);
        return seal && <Time value={seal.sealed_at} />;
      },
    },
    {
      name: "Seal",
      width: "170px",
      cell: (day) => {
        const seal = seals.get(day)?.seal;
        return seal && (
          <Group gap="xs" wrap="nowrap">
            <code>{seal.slice(0, 8)}…</code>
            <Copy label={`seal of ${day}`} text={seal} isShort />
          </Group>
        );
      },
    },
  ];
  return (
    <>
      {altered.size > 0 && (
        <Alert color="red" role="alert" title="Changed after sealing" mb="sm">
          {count(altered.size, "day has", "days have")}{" "}
          other entries than when sealed, and no seal declares a late entry or a deletion. Compare
          these days with an earlier export:{" "}
          {[...altered].sort().map((day, index) => (
            <span key={day}>
              {index > 0 && ", "}
              <DayLink day={day} />
            </span>
          ))}.
        </Alert>
      )}
      <Table label="Seals" columns={columns} rows={all} idOf={(day) => day} />
    </>
  );
}

/** Leads to the entries of a day. */
function DayLink({ day }: { day: string }) {
  return (
    <Link
      from="/$organizationId/seals"
      to="/$organizationId/log"
      search={{ start: day, end: day }}
    >
      {day}
    </Link>
  );
}
