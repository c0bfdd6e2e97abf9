import { getRouteApi } from "@tanstack/react-router";
import { useApiKeys } from "../data/api_keys.ts";
import { useOrganization } from "../data/organizations.ts";
import { type Reader, readersOf, useUsage } from "../data/log_usage.ts";
import { count, dayOf, formatRelative } from "../shared/days.ts";
import { Answer, Empty, Head, Lead, Time } from "../shared/parts.tsx";
import { RangePicker } from "../shared/range.tsx";
import { daysOf } from "../shared/search_params.ts";
import { type Column, Table } from "../shared/table.tsx";
import { AccessTabs } from "./access_tabs.tsx";

const COLUMNS: Column<Reader>[] = [
  {
    name: "Reader",
    onPhone: "line",
    isRowHeader: true,
    cell: ({ name }) => <bdi title={name}>{name}</bdi>,
    hint: ({ kind }) => kind,
  },
  {
    name: "Last read",
    onPhone: "line",
    width: "220px",
    cell: ({ last_at }) => <Time value={last_at}>{formatRelative(last_at)}</Time>,
    hint: ({ first_at, last_address }) =>
      `first ${dayOf(first_at)}${last_address ? `, from ${last_address}` : ""}`,
  },
  {
    name: "Requests",
    onPhone: "named",
    width: "128px",
    isNumber: true,
    cell: ({ requests }) => <bdi>{requests.toLocaleString("en")}</bdi>,
    hint: ({ invalid_requests }) =>
      invalid_requests > 0 && `${invalid_requests.toLocaleString("en")} invalid`,
  },
  {
    name: "Entries read",
    onPhone: "named",
    width: "128px",
    isNumber: true,
    value: ({ entries }) => entries,
  },
];

const route = getRouteApi("/$organizationId/usage");

export default function Usage() {
  const organization = useOrganization();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { data: keys = [] } = useApiKeys();
  const days = daysOf(search, "30d");
  const usage = useUsage(days);
  return (
    <>
      <Head title="Access" />
      <AccessTabs />
      <Lead>
        Who read the log of <bdi>{organization.name}</bdi>, and when.
      </Lead>
      <RangePicker search={search} preset="30d" onChange={(range) => navigate({ search: range })} />
      <Answer query={usage} what="readers">
        {(usage) => {
          const readers = readersOf(usage, keys);
          if (readers.length === 0) {
            return (
              <Empty title="No readers">Nobody read the log on these days. Choose others.</Empty>
            );
          }
          return (
            <>
              <Table
                label="Readers"
                // A copy draws each row again, since "3 seconds ago" has become wrong.
                columns={[...COLUMNS]}
                rows={readers}
                idOf={({ id }) => id}
              />
              <span role="status">{count(readers.length, "reader")}</span>
              <Lead>
                Requests without a valid key, and those above the rate limit, are not counted. The
                counts are kept for 400 days.
              </Lead>
            </>
          );
        }}
      </Answer>
    </>
  );
}
