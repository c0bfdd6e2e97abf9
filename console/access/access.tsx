import { getRouteApi } from "@tanstack/react-router";
import * as z from "zod/mini";
import { useApiKeys } from "../keys/data.ts";
import { KeepsUp } from "../keys/key_state.tsx";
import { count, dayOf, formatRelative } from "../shared/days.ts";
import { Answer, Empty, Head, Lead, Time } from "../shared/parts.tsx";
import { daysOf, RANGE, RangePicker } from "../shared/range.tsx";
import { type Column, sorted, SORTING, Table } from "../shared/table.tsx";
import { compareNames, useOrganization } from "../shell/organization.ts";
import { type Reader, readersOf, useReads } from "./data.ts";

export const ACCESS_ADDRESS = z.object({ ...RANGE, ...SORTING });

const COLUMNS: Column<Reader>[] = [
  {
    name: "Reader",
    width: "minmax(0, 1fr)",
    sort: { by: "reader", compare: (a, b) => compareNames(a.name, b.name) },
    isRowHeader: true,
    cell: ({ name }) => <bdi title={name}>{name}</bdi>,
    hint: ({ kind }) => kind,
  },
  {
    name: "Keeps up",
    width: "176px",
    cell: ({ key }) => key && <KeepsUp apiKey={key} />,
  },
  {
    name: "Requests",
    width: "88px",
    sort: { by: "requests", compare: (a, b) => a.requests - b.requests },
    isNumber: true,
    cell: ({ requests }) => requests.toLocaleString("en"),
  },
  {
    name: "Refused",
    width: "64px",
    isNumber: true,
    cell: ({ invalid_requests }) => invalid_requests.toLocaleString("en"),
  },
  {
    name: "Entries read",
    width: "100px",
    sort: { by: "entries", compare: (a, b) => a.entries - b.entries },
    isNumber: true,
    cell: ({ entries }) => entries.toLocaleString("en"),
  },
  {
    name: "First",
    width: "78px",
    cell: ({ first_at }) => <Time value={first_at}>{dayOf(first_at)}</Time>,
  },
  {
    name: "Last",
    width: "140px",
    sort: { by: "last", compare: (a, b) => Date.parse(a.last_at) - Date.parse(b.last_at) },
    cell: ({ last_at }) => <Time value={last_at}>{formatRelative(last_at)}</Time>,
    hint: ({ last_address }) => last_address && `from ${last_address}`,
  },
];

const route = getRouteApi("/$organizationId/access");

/** Who read the log: keys and administrators alike. */
export function Access() {
  const organization = useOrganization();
  const address = route.useSearch();
  const navigate = route.useNavigate();
  const { data: keys = [] } = useApiKeys();
  const reads = useReads(daysOf(address, "30d"));
  const sorting = address.sort ? address : { sort: "last", descending: true as const };
  return (
    <>
      <Head title="Access" />
      <Lead>
        Keys and administrators that have read the log of{" "}
        <bdi>{organization.name}</bdi>. Refused requests had a mistake (400). Days are UTC, and kept
        for 400 days.
      </Lead>
      <RangePicker
        address={address}
        preset="30d"
        onChange={(range) => navigate({ search: (before) => ({ ...before, ...range }) })}
      />
      <Answer query={reads} what="readers">
        {(reads) => {
          const readers = readersOf(reads, keys);
          if (readers.length === 0) {
            return <Empty title="Nobody">Nobody read the log in these days.</Empty>;
          }
          return (
            <>
              <Table
                label="Readers"
                // A copy draws each row again, since "3 seconds ago" has become wrong.
                columns={[...COLUMNS]}
                rows={sorted(readers, COLUMNS, sorting)}
                idOf={({ id }) => id}
                sorting={sorting}
                onSort={(sorting) => navigate({ search: (before) => ({ ...before, ...sorting }) })}
              />
              <span role="status">{count(readers.length, "reader")}</span>
            </>
          );
        }}
      </Answer>
    </>
  );
}
