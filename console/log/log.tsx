import { ActionIcon, Alert, Button, Group } from "@mantine/core";
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link, useRouter } from "@tanstack/react-router";
import { useCallback, useDeferredValue, useState } from "react";
import { type AuditEntry, readLog } from "../data/entries.ts";
import { useLogDays } from "../data/log_days.ts";
import { useOrganization } from "../data/organizations.ts";
import { Export } from "../export/export.tsx";
import { Copy } from "../shared/copy.tsx";
import { count } from "../shared/days.ts";
import { Icon } from "../shared/icons.tsx";
import { Empty, Failure, Head, Loading, State } from "../shared/parts.tsx";
import { daysOf, filterOf, type LogSearch, PAGE_SIZES } from "../shared/search.ts";
import { EntryPanel } from "./entry.tsx";
import { EntryTable } from "./entry_table.tsx";
import { useFeed } from "./follow.ts";
import { Histogram } from "./histogram.tsx";
import styles from "./log.module.css";
import { Pages } from "./pages.tsx";
import { LOG_PRESET, Toolbar } from "./toolbar.tsx";

const FIRST_PAGE = { page: undefined, entry: undefined, at: undefined };

const route = getRouteApi("/$organizationId/log");

export function Log() {
  const organization = useOrganization();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const queryClient = useQueryClient();
  const [isExporting, setIsExporting] = useState(false);
  // Deferred, so that the switch moves before the rows are drawn again.
  const shownZone = useDeferredValue(search.time ?? "utc");
  const chosen = filterOf(search);
  const filter = { organizationId: organization.id, ...daysOf(search, LOG_PRESET), ...chosen };
  const { page = 1, size = PAGE_SIZES[0], follow: isFollowing = false } = search;
  const entries = useQuery({
    queryKey: ["log", organization.id, "page", filter, page, size],
    // A slow answer never shows under another filter, because it belongs to its key.
    queryFn: ({ signal }) => readLog(filter, { limit: size, offset: (page - 1) * size }, signal),
    placeholderData: keepPreviousData,
    enabled: !isFollowing,
  });
  const days = useLogDays(filter);
  const altered = [...days.data?.altered ?? []].sort();
  const feed = useFeed(filter, isFollowing);
  const items = isFollowing ? feed.entries : entries.data?.items;
  const open = useCallback(
    (entry: AuditEntry | undefined) =>
      navigate({
        search: (before) => ({ ...before, entry: entry?.id, at: entry?.created_at }),
        resetScroll: false,
      }),
    [navigate],
  );
  const router = useRouter();
  const { start, end } = filter;
  // The list with fixed days, so that another person sees the same on another day.
  const { href } = router.buildLocation({
    from: "/$organizationId/log",
    to: ".",
    search: { ...search, range: undefined, start, end, entry: undefined, at: undefined },
  });
  const link = `${location.origin}${router.history.createHref(href)}`;
  // The link names the zone, so it is deferred with it: the rows are drawn again once, not twice.
  const shownLink = useDeferredValue(link);
  const refresh = () => queryClient.invalidateQueries({ queryKey: ["log", organization.id] });
  // Another filter starts at its first page.
  const change = (changes: Partial<LogSearch>) =>
    navigate({ search: (before) => ({ ...before, ...FIRST_PAGE, ...changes }) });

  return (
    <>
      <Head title="Log">
        <Button
          variant={isFollowing ? "filled" : "default"}
          leftSection={<Icon name="live" />}
          onClick={() => {
            // The list from before is out of date.
            if (isFollowing) refresh();
            change({ follow: isFollowing ? undefined : true });
          }}
        >
          {isFollowing ? "Stop following" : "Follow"}
        </Button>
        <ActionIcon
          variant="default"
          aria-label="Refresh"
          loading={entries.isFetching && !entries.isPending}
          onClick={refresh}
        >
          <Icon name="refresh" />
        </ActionIcon>
        <Button leftSection={<Icon name="download" />} onClick={() => setIsExporting(true)}>
          Export
        </Button>
        <Copy label="link" text={link} />
      </Head>
      <Toolbar
        search={search}
        onChange={change}
        onZone={(time) => navigate({ search: (before) => ({ ...before, time }) })}
      />
      {altered.length > 0 && !isFollowing && <Altered days={altered} />}
      {days.data && days.data.counts.size > 0 && !isFollowing && (
        <div aria-busy={days.isPlaceholderData}>
          <Histogram
            days={days.data}
            onSelect={(days, newer) =>
              change(
                filter.start === filter.end
                  ? { page: Math.floor(newer / size) + 1 }
                  : { range: undefined, ...days },
              )}
          />
        </div>
      )}
      <Failure error={(isFollowing ? feed.error : entries.error) ?? days.error} onRetry={refresh} />
      {isFollowing && <FeedState {...feed} />}
      {entries.isLoading && <Loading what="entries" />}
      <div className={styles.results} data-open={search.entry !== undefined || undefined}>
        <div className={styles.list} aria-busy={!isFollowing && entries.isPlaceholderData}>
          {items && items.length > 0 && (
            <EntryTable
              link={shownLink}
              entries={items}
              zone={shownZone}
              openId={search.entry}
              onOpen={open}
            />
          )}
          {!isFollowing && entries.data && (
            <Pages
              page={page}
              size={size}
              data={entries.data}
              isFiltered={Object.values(chosen).some((value) => value !== undefined)}
              onChange={change}
            />
          )}
        </div>
        {search.entry !== undefined && (
          <EntryPanel
            id={search.entry}
            at={search.at}
            link={link}
            items={items}
            isReading={isFollowing ? !feed.isCaughtUp && !feed.error : entries.isPending}
            onOpen={open}
            onFilter={change}
          />
        )}
      </div>
      {isExporting && <Export filter={filter} onClose={() => setIsExporting(false)} />}
    </>
  );
}

/** Warns of days that were altered after sealing, and leads to the first. On a phone it takes one line. */
function Altered({ days }: { days: string[] }) {
  const [day] = days;
  return (
    <Alert color="red" role="alert" p="xs">
      <Group gap="xs">
        <span>
          <Link from="/$organizationId/log" to="." search={{ start: day, end: day }}>{day}</Link>
          {days.length > 1 ? ` and ${count(days.length - 1, "other day")} were` : " was"}{" "}
          altered after sealing.
        </span>
        <Link
          from="/$organizationId/log"
          to="/$organizationId/seals"
          search={{ start: day, end: day }}
        >
          What to do
        </Link>
      </Group>
    </Alert>
  );
}

function FeedState({ start, received, isCaughtUp }: ReturnType<typeof useFeed>) {
  const entries = count(received, "entry", "entries");
  return (
    <>
      <div role="status">
        <State
          name={isCaughtUp
            ? `Following. ${entries} since ${start} 00:00 UTC, the latest first.`
            : `Reading today's entries: ${entries} so far …`}
          colour={isCaughtUp ? "var(--good)" : "var(--waiting)"}
        />
      </div>
      {isCaughtUp && received === 0 && (
        <Empty title="Nothing yet today">New entries appear here within two seconds.</Empty>
      )}
    </>
  );
}
