import { Alert, Button, Pagination, SegmentedControl, Select } from "@mantine/core";
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, useRouter } from "@tanstack/react-router";
import { memo, type MouseEvent, useDeferredValue, useState } from "react";
import * as z from "zod/mini";
import {
  ACTIONS,
  type AuditEntry,
  countByDay,
  listSeals,
  type LogFilter,
  type LogPage,
  readLog,
} from "./data.ts";
import { count, countDays, formatTime, TIME_ZONE, type Zone } from "./days.ts";
import { EntryDetail } from "./entry.tsx";
import { Export } from "./export.tsx";
import { useFeed } from "./follow.ts";
import { Histogram } from "./histogram.tsx";
import { Empty, Failure, Head, Loading, useOrganization } from "./parts.tsx";
import { daysOf, RANGE, RangePicker } from "./range.tsx";

const PAGE_SIZES = ["50", "100", "1000"] as const;
const DEFAULT_PAGE_SIZE = 50;
const ACTION_CHOICES = [
  { value: "", label: "All actions" },
  ...ACTIONS.map((action) => ({ value: action, label: action })),
];

const ADDRESS = z.object({
  ...RANGE,
  action: z.catch(z.optional(z.enum(ACTIONS)), undefined),
  page: z.catch(z.optional(z.int().check(z.gte(1))), undefined),
  size: z.catch(z.optional(z.literal([100, 1000])), undefined),
  time: z.catch(z.optional(z.literal("local")), undefined),
  follow: z.catch(z.optional(z.literal(true)), undefined),
  entry: z.catch(z.optional(z.string()), undefined),
});
type Address = z.infer<typeof ADDRESS>;

export function readLogAddress(search: unknown): Address {
  return z.parse(ADDRESS, search);
}

const route = getRouteApi("/$organizationId/log");

export function Log() {
  const organization = useOrganization();
  const address = route.useSearch();
  const navigate = route.useNavigate();
  const queryClient = useQueryClient();
  const [isExporting, setIsExporting] = useState(false);
  const zone = address.time ?? "utc";
  // The switch answers at once, and the rows follow.
  const shownZone = useDeferredValue(zone);
  const filter = {
    organizationId: organization.id,
    ...daysOf(address),
    action: address.action,
  };
  const { page = 1, size = DEFAULT_PAGE_SIZE } = address;
  const entries = useEntries(filter, page, size, address.follow ?? false);
  const feed = useFeed(filter, address.follow ?? false);
  const items = address.follow ? feed.entries : entries.data?.items;
  const open = (entry: string | undefined) =>
    navigate({ search: (before) => ({ ...before, entry }), resetScroll: false });
  const refresh = () => queryClient.invalidateQueries({ queryKey: ["log", organization.id] });
  // Another filter starts at its first page.
  const change = (changes: Partial<Address>) =>
    navigate({
      search: (before) => ({ ...before, page: undefined, entry: undefined, ...changes }),
    });

  return (
    <>
      <Head title="Log">
        <Button
          size="xs"
          variant={address.follow ? "filled" : "default"}
          aria-pressed={address.follow ?? false}
          onClick={() => {
            // The page that comes back is as old as the following.
            if (address.follow) refresh();
            change({ follow: address.follow ? undefined : true });
          }}
        >
          {address.follow ? "Stop following" : "Follow"}
        </Button>
        <Button
          size="xs"
          variant="default"
          onClick={refresh}
        >
          {entries.isFetching ? "Reading …" : "Refresh"}
        </Button>
        <Button size="xs" variant="default" onClick={() => setIsExporting(true)}>Export</Button>
      </Head>
      <div className="row filters">
        <RangePicker address={address} onChange={change} />
        <Select
          aria-label="Action"
          size="xs"
          w={190}
          data={ACTION_CHOICES}
          value={address.action ?? ""}
          allowDeselect={false}
          onChange={(value) => change({ action: ACTIONS.find((action) => action === value) })}
        />
        <SegmentedControl
          aria-label="Times"
          size="xs"
          data={[{ value: "utc", label: "UTC" }, { value: "local", label: "Local time" }]}
          value={zone}
          onChange={(zone) =>
            navigate({
              search: (before) => ({ ...before, time: zone === "local" ? "local" : undefined }),
            })}
        />
      </div>
      <Overview filter={filter} onSelect={(days) => change({ range: undefined, ...days })} />
      {address.follow ? <FeedState feed={feed} /> : (
        <>
          <Failure error={entries.error} onRetry={entries.refetch} />
          {entries.isPending && <Loading what="entries" />}
        </>
      )}
      {items && items.length > 0 && (
        <div
          aria-busy={entries.isPlaceholderData}
          className={entries.isPlaceholderData ? "stale" : ""}
        >
          <EntryTable entries={items} zone={shownZone} openId={address.entry} />
        </div>
      )}
      {!address.follow && entries.data && (
        <Pages
          page={page}
          size={size}
          data={entries.data}
          onPage={(page) => change({ page: page === 1 ? undefined : page })}
          onSize={(size) => change({ size })}
        />
      )}
      <EntryDetail
        id={address.entry}
        shown={items?.find(({ id }) => id === address.entry)}
        isReading={entries.isPending || entries.isPlaceholderData}
        filter={filter}
        onClose={() => open(undefined)}
      />
      {isExporting && (
        <Export
          filter={filter}
          organization={organization}
          onClose={() => setIsExporting(false)}
        />
      )}
    </>
  );
}

function useEntries(filter: LogFilter, page: number, size: number, isFollowing: boolean) {
  return useQuery({
    queryKey: ["log", filter.organizationId, "page", filter, page, size],
    // An answer belongs to its key, so a slow one never shows under another filter; and is given up.
    queryFn: ({ signal }) => readLog(filter, { limit: size, offset: (page - 1) * size }, signal),
    placeholderData: keepPreviousData,
    enabled: !isFollowing,
  });
}

interface OverviewProps {
  filter: LogFilter;
  onSelect: (days: { start: string; end: string }) => void;
}

/** The total, and what each day has: entries, and a seal or none. */
function Overview({ filter, onSelect }: OverviewProps) {
  const { organizationId, start, end } = filter;
  const counts = useQuery({
    queryKey: ["log", organizationId, "counts", filter],
    queryFn: ({ signal }) => countByDay(filter, signal),
    placeholderData: keepPreviousData,
  });
  const seals = useQuery({
    queryKey: ["log", organizationId, "seals", start, end],
    queryFn: ({ signal }) => listSeals(organizationId, { start, end }, signal),
    placeholderData: keepPreviousData,
  });
  const altered = [...seals.data?.altered ?? []];
  return (
    <>
      {altered.length > 0 && (
        <Alert color="red" role="alert" title="Changed after sealing">
          The entries of {new Intl.ListFormat("en").format(altered)}{" "}
          are not those that were sealed. See Seals.
        </Alert>
      )}
      {counts.data && countDays(filter) > 1 && (
        <Histogram
          days={filter}
          counts={counts.data}
          seals={seals.data}
          onSelect={onSelect}
        />
      )}
    </>
  );
}

interface PagesProps {
  page: number;
  size: number;
  data: LogPage;
  onPage: (page: number) => void;
  onSize: (size: Address["size"]) => void;
}

function Pages({ page, size, data: { total, items }, onPage, onSize }: PagesProps) {
  const last = Math.max(1, Math.ceil(total / size));
  if (total === 0) {
    return (
      <Empty title="No entries">
        None in these days with this action. Choose other days, or all actions.
      </Empty>
    );
  }
  if (items.length === 0) {
    return (
      <Empty title="No such page">
        <Button size="xs" variant="default" onClick={() => onPage(last)}>Show the last page</Button>
      </Empty>
    );
  }
  const first = (page - 1) * size + 1;
  return (
    <div className="row between pages">
      <span role="status">
        {first.toLocaleString("en")}–{(first + items.length - 1).toLocaleString("en")} of{" "}
        {count(total, "entry", "entries")}, newest first
      </span>
      <div className="row">
        <Select
          aria-label="Entries on a page"
          size="xs"
          w={120}
          data={PAGE_SIZES.map((size) => ({ value: size, label: `${size} a page` }))}
          value={String(size)}
          allowDeselect={false}
          onChange={(size) => onSize(size === "100" ? 100 : size === "1000" ? 1000 : undefined)}
        />
        <Pagination
          size="sm"
          total={last}
          value={page}
          onChange={onPage}
          getItemProps={(page) => ({ "aria-label": `Page ${page}` })}
          getControlProps={(control) => ({
            "aria-label": control === "next" ? "Older entries" : "Newer entries",
          })}
        />
      </div>
    </div>
  );
}

function FeedState({ feed }: { feed: ReturnType<typeof useFeed> }) {
  return (
    <>
      <Failure error={feed.error} />
      <p className="hint" role="status">
        {!feed.checkedAt
          ? `Reading today's entries: ${count(feed.received, "entry", "entries")} so far …`
          : `Following. ${
            count(feed.received, "entry", "entries")
          } since 00:00 UTC, the latest first.`}
      </p>
      {feed.checkedAt !== null && feed.received === 0 && (
        <Empty title="Nothing yet today">New entries appear here within two seconds.</Empty>
      )}
    </>
  );
}

interface EntryTableProps {
  entries: AuditEntry[];
  zone: Zone;
  openId: string | undefined;
}

/**
 * A plain table: 1,000 rows of it are drawn and scrolled faster than a virtual list is kept up. The roles
 * say again what the elements are: a narrow screen shows rows as two lines, and they lose it.
 */
const EntryTable = memo(function EntryTable({ entries, zone, openId }: EntryTableProps) {
  const router = useRouter();
  // One link for all rows: to build a thousand takes longer than to draw the table.
  const [before = "", after = ""] = router.history.createHref(
    router.buildLocation({
      from: "/$organizationId/log",
      to: ".",
      search: (search) => ({ ...search, entry: "ENTRY" }),
    }).href,
  ).split("ENTRY");
  function openRow({ target }: MouseEvent) {
    if (!(target instanceof Element) || target.closest("a") || getSelection()?.toString()) return;
    target.closest("tr")?.querySelector("a")?.click();
  }
  return (
    <table role="table" className="table entries" aria-label="Entries">
      <thead role="rowgroup">
        <tr role="row">
          <th role="columnheader" scope="col">Time ({zone === "utc" ? "UTC" : TIME_ZONE})</th>
          <th role="columnheader" scope="col">Action</th>
          <th role="columnheader" scope="col">User</th>
          <th role="columnheader" scope="col">Agent</th>
        </tr>
      </thead>
      <tbody role="rowgroup" onClick={openRow}>
        {entries.map((entry) => (
          <EntryRow
            key={entry.id}
            entry={entry}
            zone={zone}
            href={`${before}${entry.id}${after}`}
            isOpen={entry.id === openId}
          />
        ))}
      </tbody>
    </table>
  );
});

interface EntryRowProps {
  entry: AuditEntry;
  zone: Zone;
  href: string;
  isOpen: boolean;
}

const EntryRow = memo(function EntryRow({ entry, zone, href, isOpen }: EntryRowProps) {
  return (
    <tr role="row" aria-selected={isOpen || undefined}>
      <td role="cell">
        <a href={href}>
          <time dateTime={entry.created_at}>{formatTime(entry.created_at, zone, true)}</time>
        </a>
      </td>
      <td role="cell">
        <code>{entry.action}</code>
      </td>
      <td role="cell">
        <bdi>{entry.user_email}</bdi>
      </td>
      <td role="cell">
        <bdi>{entry.agent_name}</bdi>
      </td>
    </tr>
  );
});
