import { ActionIcon, Button, Group } from "@mantine/core";
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { useRouter } from "@tanstack/react-router";
import { lazy, useState } from "react";
import { readLog } from "../data/entries.ts";
import { useLogDays } from "../data/log_days.ts";
import { useOrganization } from "../data/organizations.ts";
import { Copy } from "../shared/copy.tsx";
import { count, today } from "../shared/days.ts";
import { Late } from "../shared/dropdown.tsx";
import { Icon } from "../shared/icons.tsx";
import { Failure, Head, Loading, State } from "../shared/parts.tsx";
import { daysOf, filterOf, PAGE_SIZES } from "../shared/search_params.ts";
import { CONSOLE_URL, loaded } from "../shared/transport.ts";
import { EntryPanel } from "./entry.tsx";
import { EntryTable } from "./entry_table.tsx";
import { useFeed } from "./follow.ts";
import { Histogram } from "./histogram.tsx";
import styles from "./log.module.css";
import { Pages } from "./pages.tsx";
import { Toolbar } from "./toolbar.tsx";
import { useLogSearch } from "./use_log_search.ts";

const Export = lazy(() => loaded(import("../export/export.tsx")));

export function Log() {
  const organization = useOrganization();
  const { search, change, open } = useLogSearch();
  const queryClient = useQueryClient();
  const [isExporting, setIsExporting] = useState(false);
  const days = daysOf(search);
  const filter = { organizationId: organization.id, ...days, ...filterOf(search) };
  const { page = 1, size = PAGE_SIZES[0], follow: isFollowing = false } = search;
  const entries = useQuery({
    queryKey: ["log", organization.id, "page", filter, page, size],
    // A slow answer never shows under another filter, because it belongs to its key.
    queryFn: ({ signal }) => readLog(filter, { limit: size, offset: (page - 1) * size }, signal),
    placeholderData: keepPreviousData,
    enabled: !isFollowing,
  });
  const logDays = useLogDays(filter);
  const feed = useFeed(filter, isFollowing);
  const received = count(feed.received, "entry", "entries");
  const items = isFollowing ? feed.entries : entries.data?.items;
  const router = useRouter();
  // The list with fixed days, so that another person sees the same on another day.
  const { href } = router.buildLocation({
    from: "/$organizationId/log",
    to: ".",
    search: { ...search, range: undefined, ...days, entry: undefined, at: undefined },
  });
  const link = `${CONSOLE_URL}#${href}`;
  const refresh = () => queryClient.invalidateQueries({ queryKey: ["log", organization.id] });

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
      <Toolbar />
      {!isFollowing && (
        <div className={styles.chart} aria-busy={logDays.isPlaceholderData}>
          {logDays.data && (
            <Histogram
              days={logDays.data}
              onSelect={(chosen, newer) =>
                change(
                  days.start === days.end
                    ? { page: Math.floor(newer / size) + 1 }
                    : { range: undefined, ...chosen },
                )}
            />
          )}
        </div>
      )}
      <Failure
        error={(isFollowing ? feed.error : entries.error) ?? logDays.error}
        onRetry={refresh}
      />
      {isFollowing && (
        <div role="status">
          <State
            name={feed.isCaughtUp
              ? `Following. ${received} since ${feed.start} 00:00 UTC, the latest first.`
              : `Reading today's entries: ${received} so far …`}
            colour={feed.isCaughtUp ? "var(--good)" : "var(--waiting)"}
          />
        </div>
      )}
      <div className={styles.results} data-open={search.entry !== undefined || undefined}>
        <div className={styles.list} aria-busy={!isFollowing && entries.isPlaceholderData}>
          {entries.isLoading && <Loading what="entries" />}
          {items && items.length > 0 && (
            <EntryTable link={link} entries={items} openId={search.entry} onOpen={open} />
          )}
          {isFollowing && feed.received > feed.entries.length && (
            <Group justify="space-between">
              The latest {feed.entries.length} of {received}.
              <Button
                onClick={() =>
                  change({ follow: undefined, range: "today", start: undefined, end: undefined })}
              >
                Show all of today
              </Button>
            </Group>
          )}
          {!isFollowing && entries.data && <Pages data={entries.data} />}
        </div>
        {search.entry !== undefined && (
          <EntryPanel
            link={link}
            items={items}
            isReading={isFollowing ? !feed.isCaughtUp && !feed.error : entries.isPending}
          />
        )}
      </div>
      {isExporting && (
        <Late height={0}>
          <Export
            filter={isFollowing ? { ...filter, start: feed.start, end: today() } : filter}
            onClose={() => setIsExporting(false)}
          />
        </Late>
      )}
    </>
  );
}
