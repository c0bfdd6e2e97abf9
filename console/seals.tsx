import { Alert } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import * as z from "zod/mini";
import { latestSeal, type LogDays, type Seal } from "./data.ts";
import { count } from "./days.ts";
import {
  Copy,
  Empty,
  Failure,
  Head,
  Loading,
  SEAL_STATES,
  sealState,
  Time,
  useLogDays,
  useOrganization,
} from "./parts.tsx";
import { daysOf, RANGE, RangePicker } from "./range.tsx";

const ADDRESS = z.object(RANGE);

export function readSealsAddress(search: unknown): z.infer<typeof ADDRESS> {
  return z.parse(ADDRESS, search);
}

const route = getRouteApi("/$organizationId/seals");

/** Each day with its seal: what an administrator copies to prove later that the log is as it was. */
export function Seals() {
  const { id: organizationId } = useOrganization();
  const address = route.useSearch();
  const navigate = route.useNavigate();
  const latest = useQuery({
    queryKey: ["latest seal", organizationId],
    queryFn: ({ signal }) => latestSeal(organizationId, signal),
  });
  const days = useLogDays({ organizationId, ...daysOf(address, "30d") });
  return (
    <>
      <Head title="Seals" />
      <p className="lead">
        Each night the finished days are sealed: a SHA-256 over their entries, chained to the seal
        before. Keep a copy of the latest one elsewhere. With it and an export you can show later
        that no entry of these days was changed.
      </p>
      <Failure error={latest.error} onRetry={latest.refetch} />
      {latest.data && <Latest seal={latest.data} />}
      <RangePicker
        address={address}
        preset="30d"
        onChange={(range) => navigate({ search: range })}
      />
      <Failure error={days.error} onRetry={days.refetch} />
      {days.isPending && <Loading what="seals" />}
      {days.data && (
        <div className="results" aria-busy={days.isPlaceholderData}>
          <SealTable days={days.data} />
        </div>
      )}
    </>
  );
}

function Latest({ seal: { sequence, day, seal } }: { seal: Seal }) {
  return (
    <section className="card" aria-label="Latest seal">
      <div className="row between">
        <strong>
          Latest seal, number {sequence.toLocaleString("en")}, of <span className="day">{day}</span>
        </strong>
        <Copy label="latest seal" text={seal} />
      </div>
      <code className="wrap">{seal}</code>
    </section>
  );
}

function SealTable({ days: logDays }: { days: LogDays }) {
  const { counts, seals, altered } = logDays;
  const days = [...new Set([...counts.keys(), ...seals.keys(), ...altered])].sort().reverse();
  if (days.length === 0) {
    return <Empty title="Nothing to seal">These days have no entries. Choose others.</Empty>;
  }
  return (
    <>
      {altered.size > 0 && (
        <Alert color="red" role="alert" title="Changed after sealing">
          {count(altered.size, "day has", "days have")}{" "}
          other entries than when sealed, and no seal declares a late entry or a deletion. Compare
          these days with an earlier export: {[...altered].sort().join(", ")}.
        </Alert>
      )}
      <table aria-label="Seals" className="table">
        <thead>
          <tr>
            <th scope="col">Day (UTC)</th>
            <th scope="col">State</th>
            <th scope="col" className="number">Entries</th>
            <th scope="col" className="wide">Sealed at (UTC)</th>
            <th scope="col">Seal</th>
          </tr>
        </thead>
        <tbody>
          {days.map((day) => {
            const seal = seals.get(day);
            const entries = counts.get(day) ?? 0;
            const state = sealState(day, logDays);
            return (
              <tr key={day}>
                <th scope="row" className="day">{day}</th>
                <td>
                  <span className="state" data-state={state}>{SEAL_STATES[state]}</span>
                  {seal && state === "sealed" && seal.entries !== entries && (
                    <div className="hint">
                      with {seal.entries.toLocaleString("en")}{" "}
                      entries; the change is declared with the next seal
                    </div>
                  )}
                </td>
                <td className="number">{entries.toLocaleString("en")}</td>
                <td className="wide">{seal && <Time value={seal.sealed_at} />}</td>
                <td>
                  {seal && (
                    <span className="row">
                      <code className="wide">{seal.seal.slice(0, 8)}…</code>
                      <Copy label={`seal of ${day}`} text={seal.seal} isShort />
                    </span>
                  )}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </>
  );
}
