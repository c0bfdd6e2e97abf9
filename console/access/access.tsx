import { getRouteApi } from "@tanstack/react-router";
import { useMemo } from "react";
import * as z from "zod/mini";
import { STATE_COLOURS, STATES } from "../keys/address.ts";
import { type ApiKey, isLive, useApiKeys } from "../keys/data.ts";
import { keepsUp } from "../keys/keeps_up.ts";
import { count, dayOf, formatRelative } from "../shared/days.ts";
import { compareNames, useOrganization } from "../shell/organization.ts";
import { Empty, Failure, Head, Hint, Lead, Loading, State, Time } from "../shared/parts.tsx";
import { daysOf, RANGE, RangePicker } from "../shared/range.tsx";
import { type Column, Table } from "../shared/table.tsx";
import { type Reader, readersOf, useReads } from "./data.ts";

const SORTS = {
  reader: (a: Reader, b: Reader) => compareNames(a.name, b.name),
  requests: (a: Reader, b: Reader) => a.requests - b.requests,
  entries: (a: Reader, b: Reader) => a.entries - b.entries,
  last: (a: Reader, b: Reader) => Date.parse(a.last_at) - Date.parse(b.last_at),
};

const ADDRESS = z.object({
  ...RANGE,
  sort: z.catch(z.optional(z.enum(Object.keys(SORTS) as (keyof typeof SORTS)[])), undefined),
  descending: z.catch(z.optional(z.literal(true)), undefined),
});

export function readAccessAddress(search: unknown): z.infer<typeof ADDRESS> {
  return z.parse(ADDRESS, search);
}

const COLUMNS: Column<Reader>[] = [
  {
    name: "Reader",
    width: "minmax(0, 1fr)",
    sort: "reader",
    isRowHeader: true,
    cell: ({ name, kind }) => (
      <>
        <bdi title={name}>{name}</bdi>
        <Hint>{kind}</Hint>
      </>
    ),
  },
  {
    name: "Keeps up",
    width: "160px",
    cell: ({ key }) => key && <KeepsUp apiKey={key} />,
  },
  {
    name: "Requests",
    width: "84px",
    sort: "requests",
    isNumber: true,
    cell: ({ requests }) => requests.toLocaleString("en"),
  },
  {
    name: "Refused (400)",
    width: "92px",
    isNumber: true,
    cell: ({ invalid_requests }) => invalid_requests.toLocaleString("en"),
  },
  {
    name: "Entries read",
    width: "96px",
    sort: "entries",
    isNumber: true,
    cell: ({ entries }) => entries.toLocaleString("en"),
  },
  {
    name: "First",
    width: "84px",
    cell: ({ first_at }) => <Time value={first_at}>{dayOf(first_at)}</Time>,
  },
  {
    name: "Last",
    width: "140px",
    sort: "last",
    cell: ({ last_at, last_address }) => (
      <>
        <Time value={last_at}>{formatRelative(last_at)}</Time>
        {last_address && (
          <Hint>
            from <code>{last_address}</code>
          </Hint>
        )}
      </>
    ),
  },
];

function KeepsUp({ apiKey }: { apiKey: ApiKey }) {
  const [text, colour] = isLive(apiKey)
    ? keepsUp(apiKey)
    : [STATES[apiKey.state].toLowerCase(), STATE_COLOURS[apiKey.state]];
  return <State colour={colour}>{text}</State>;
}

const route = getRouteApi("/$organizationId/access");

/** Who read the log: keys and administrators alike. */
export function Access() {
  const organization = useOrganization();
  const { sort = "last", descending = sort === "last", ...address } = route.useSearch();
  const navigate = route.useNavigate();
  const { data: keys } = useApiKeys();
  const reads = useReads(daysOf(address, "30d"));
  const readers = useMemo(
    () =>
      reads.data &&
      readersOf(reads.data, keys ?? []).sort((a, b) =>
        descending ? SORTS[sort](b, a) : SORTS[sort](a, b)
      ),
    [reads.data, keys, sort, descending],
  );
  return (
    <>
      <Head title="Access" />
      <Lead>
        Who has read the log of{" "}
        <bdi>{organization.name}</bdi>: applications with a key, and administrators here. Days are
        UTC, and kept for 400 days.
      </Lead>
      <RangePicker
        address={address}
        preset="30d"
        onChange={(range) => navigate({ search: (before) => ({ ...before, ...range }) })}
      />
      <Failure error={reads.error} onRetry={reads.refetch} />
      {reads.isPending && <Loading what="readers" />}
      {readers?.length === 0 && <Empty title="Nobody">Nobody read the log in these days.</Empty>}
      {readers && readers.length > 0 && (
        <>
          <Table
            label="Readers"
            // Other columns each time, since "3 seconds ago" becomes wrong.
            columns={[...COLUMNS]}
            rows={readers}
            idOf={({ id }) => id}
            sorting={{
              by: sort,
              isDescending: descending,
              onSort: (by) =>
                navigate({
                  search: (before) => ({
                    ...before,
                    sort: readAccessAddress({ sort: by }).sort,
                    descending: sort === by && !descending ? true : undefined,
                  }),
                }),
            }}
          />
          <span role="status">{count(readers.length, "reader")}</span>
        </>
      )}
    </>
  );
}
