import { Alert, Button, Pagination, SegmentedControl, Select } from "@mantine/core";
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, useRouter } from "@tanstack/react-router";
import { memo, type MouseEvent, useCallback, useDeferredValue, useState } from "react";
import * as z from "zod/mini";
import { ACTIONS, type AuditEntry, type LogPage, readLog } from "./data.ts";
import { count, countDays, formatTime, TIME_ZONE, type Zone } from "./days.ts";
import { EntryDetail } from "./entry.tsx";
import { Export } from "./export.tsx";
import { type Feed, useFeed } from "./follow.ts";
import { Histogram } from "./histogram.tsx";
import { Empty, Failure, Head, Loading, useLogDays, useOrganization } from "./parts.tsx";
import { daysOf, RANGE, type RangeAddress, RangePicker } from "./range.tsx";

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
  const filter = { organizationId: organization.id, ...daysOf(address), action: address.action };
  const { page = 1, size = DEFAULT_PAGE_SIZE, follow: isFollowing = false } = address;
  const entries = useQuery({
    queryKey: ["log", organization.id, "page", filter, page, size],
    // An answer belongs to its key, so a slow one never shows under another filter; and is given up.
    queryFn: ({ signal }) => readLog(filter, { limit: size, offset: (page - 1) * size }, signal),
    placeholderData: keepPreviousData,
    enabled: !isFollowing,
  });
  const days = useLogDays(filter);
  const altered = [...days.data?.altered ?? []].sort();
  const feed = useFeed(filter, isFollowing);
  const items = isFollowing ? feed.entries : entries.data?.items;
  const open = useCallback(
    (entry: string | undefined) =>
      navigate({ search: (before) => ({ ...before, entry }), resetScroll: false }),
    [navigate],
  );
  const refresh = () => queryClient.invalidateQueries({ queryKey: ["log", organization.id] });
  // Another filter starts at its first page.
  const change = (changes: Partial<Address>) =>
    navigate({
      search: (before) => ({ ...before, page: undefined, entry: undefined, ...changes }),
    });
  // What is followed has no end: whoever chooses days wants to see those.
  const chooseDays = (days: RangeAddress) =>
    change({ range: undefined, follow: undefined, ...days });

  return (
    <>
      <Head title="Log">
        <Button
          size="xs"
          variant={isFollowing ? "filled" : "default"}
          onClick={() => {
            // The page that comes back is as old as the following.
            if (isFollowing) refresh();
            change({ follow: isFollowing ? undefined : true });
          }}
        >
          {isFollowing ? "Stop following" : "Follow"}
        </Button>
        <Button size="xs" variant="default" onClick={refresh}>
          {entries.isFetching ? "Reading …" : "Refresh"}
        </Button>
        <Button size="xs" variant="default" onClick={() => setIsExporting(true)}>Export</Button>
      </Head>
      <div className="row filters">
        <RangePicker address={address} onChange={chooseDays} />
        <Select
          aria-label="Action"
          size="xs"
          w={190}
          data={ACTION_CHOICES}
          value={address.action ?? ""}
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
      {altered.length > 0 && (
        <Alert color="red" role="alert" title="Changed after sealing">
          The entries of {new Intl.ListFormat("en").format(altered)}{" "}
          differ from those that were sealed. Open Seals to see what to do.
        </Alert>
      )}
      {days.data && countDays(days.data) > 1 && (
        <div aria-busy={days.isPlaceholderData}>
          <Histogram days={days.data} onSelect={chooseDays} />
        </div>
      )}
      <Failure
        error={(isFollowing ? feed.error : entries.error) ?? days.error}
        onRetry={refresh}
      />
      {isFollowing && <FeedState feed={feed} />}
      {entries.isLoading && <Loading what="entries" />}
      <div className="results" aria-busy={entries.isPlaceholderData}>
        {items && items.length > 0 && (
          <EntryTable entries={items} zone={shownZone} openId={address.entry} onOpen={open} />
        )}
        {!isFollowing && entries.data && (
          <Pages
            page={page}
            size={size}
            data={entries.data}
            onPage={(page) => change({ page: page === 1 ? undefined : page })}
            onSize={(size) => change({ size })}
          />
        )}
      </div>
      <EntryDetail
        id={address.entry}
        shown={items?.find(({ id }) => id === address.entry)}
        isReading={isFollowing
          ? !feed.isCaughtUp && !feed.error
          : entries.isPending || entries.isPlaceholderData}
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

interface PagesProps {
  page: number;
  size: number;
  data: LogPage;
  onPage: (page: number) => void;
  onSize: (size: Address["size"]) => void;
}

function Pages({ page, size, data: { offset, total, items }, onPage, onSize }: PagesProps) {
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
  return (
    <div className="row between">
      <span role="status">
        {(offset + 1).toLocaleString("en")}–{(offset + items.length).toLocaleString("en")} of{" "}
        {count(total, "entry", "entries")}, newest first
      </span>
      <div className="row">
        <Select
          aria-label="Entries on a page"
          size="xs"
          w={120}
          data={PAGE_SIZES.map((size) => ({ value: size, label: `${size} a page` }))}
          value={String(size)}
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

function FeedState({ feed: { start, received, isCaughtUp } }: { feed: Feed }) {
  const entries = count(received, "entry", "entries");
  return (
    <>
      <p className="hint" role="status">
        {isCaughtUp
          ? `Following. ${entries} since ${start} 00:00 UTC, the latest first.`
          : `Reading today's entries: ${entries} so far …`}
      </p>
      {isCaughtUp && received === 0 && (
        <Empty title="Nothing yet today">New entries appear here within two seconds.</Empty>
      )}
    </>
  );
}

interface EntryTableProps {
  entries: AuditEntry[];
  zone: Zone;
  openId: string | undefined;
  onOpen: (id: string | undefined) => void;
}

/**
 * Not a virtual list: the browser skips the rows that are out of sight, and still finds text in them. The
 * roles say again what the elements are, since rows that are laid out as a grid lose it.
 */
const EntryTable = memo(function EntryTable({ entries, zone, openId, onOpen }: EntryTableProps) {
  const router = useRouter();
  // One link for all rows: to build a thousand takes longer than to draw the table.
  const [before = "", after = ""] = router.history.createHref(
    router.buildLocation({
      from: "/$organizationId/log",
      to: ".",
      search: (search) => ({ ...search, entry: "ENTRY" }),
    }).href,
  ).split("ENTRY");
  function openRow(event: MouseEvent<HTMLElement>) {
    const row = event.target instanceof Element && event.target.closest("tr");
    if (!row || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if (getSelection()?.toString()) return;
    // Where the focus comes back to.
    row.querySelector("a")?.focus({ preventScroll: true });
    onOpen(entries[row.sectionRowIndex]?.id);
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
      <td role="cell">{entry.action}</td>
      <td role="cell">{entry.user_email}</td>
      <td role="cell">{entry.agent_name}</td>
    </tr>
  );
});
