import { Button, Group, Stack, VisuallyHidden } from "@mantine/core";
import {
  keepPreviousData,
  useInfiniteQuery,
  useQuery,
  useQueryClient,
} from "@tanstack/react-query";
import { useRouter } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { type LogFilter, readLog, useEntryCounts } from "../data/entries.ts";
import { useOrganization } from "../data/organizations.ts";
import { Export } from "../export/export.tsx";
import { Copy } from "../shared/copy.tsx";
import { count } from "../shared/days.ts";
import { Icon } from "../shared/icons.tsx";
import { Failure, Head, Loading } from "../shared/parts.tsx";
import { daysOf, filterOf } from "../shared/search_params.ts";
import { CONSOLE_URL } from "../shared/transport.ts";
import { EntryDrawer } from "./entry.tsx";
import { EntryTable } from "./entry_table.tsx";
import styles from "./histogram.module.css";
import { Histogram } from "./histogram.tsx";
import { NoEntries } from "./no_entries.tsx";
import { Toolbar } from "./toolbar.tsx";
import { useLogSearch } from "./use_log_search.ts";

const NEWER_MS = 60_000;

/** How many entries a list begins with, and how many more a press loads. */
const FIRST = 50;
const MORE = 250;

export function Log() {
  const organization = useOrganization();
  const { search, change, open } = useLogSearch();
  const queryClient = useQueryClient();
  const [isExporting, setIsExporting] = useState(false);
  const days = daysOf(search);
  const filter = { organizationId: organization.id, ...days, ...filterOf(search) };
  const entries = useInfiniteQuery({
    queryKey: ["log", organization.id, "entries", filter],
    // A slow answer never shows under another filter, because it belongs to its key.
    queryFn: ({ pageParam: offset, signal }) =>
      readLog(filter, { limit: offset > 0 ? MORE : FIRST, offset }, signal),
    initialPageParam: 0,
    getNextPageParam: ({ offset, items, total }) => {
      const next = offset + items.length;
      return items.length > 0 && next < total ? next : undefined;
    },
    placeholderData: keepPreviousData,
  });
  const counts = useEntryCounts(filter);
  const total = entries.data?.pages.at(-1)?.total ?? 0;
  const newer = useNewer(filter, entries.data?.pages[0]?.total, entries.dataUpdatedAt);
  const news = newer > 0 && count(newer, "new entry", "new entries");
  const items = useMemo(() => {
    const all = entries.data?.pages.flatMap(({ items }) => items);
    // What arrives while a person reads moves others to the next page, which has them again.
    return all && [...new Map(all.map((entry) => [entry.id, entry])).values()];
  }, [entries.data]);
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
      <Head title="Activity">
        <Button
          leftSection={<Icon name="refresh" />}
          variant={news ? "filled" : "default"}
          loading={entries.isRefetching}
          onClick={() => {
            void refresh();
            if (news) change({});
          }}
        >
          {news || "Refresh"}
        </Button>
        <VisuallyHidden role="status">{news}</VisuallyHidden>
        <Button leftSection={<Icon name="download" />} onClick={() => setIsExporting(true)}>
          Export
        </Button>
        <Copy label="link" text={link} />
      </Head>
      <Toolbar />
      {days.start < days.end && (
        <div className={styles.chart} aria-busy={counts.isPlaceholderData}>
          {counts.data && <Histogram counts={counts.data} />}
        </div>
      )}
      <Failure error={entries.error ?? counts.error} onRetry={refresh} />
      <Stack gap="sm" aria-busy={entries.isPlaceholderData}>
        {entries.isLoading && <Loading what="entries" />}
        {items?.length === 0 && <NoEntries />}
        {items && items.length > 0 && (
          <>
            <EntryTable link={link} entries={items} onOpen={open} />
            <Group justify="space-between">
              <span role="status">
                1–{items.length.toLocaleString("en")} of {count(total, "entry", "entries")},{" "}
                newest first
              </span>
              {entries.hasNextPage && (
                <Button
                  loading={entries.isFetchingNextPage}
                  onClick={() => void entries.fetchNextPage()}
                >
                  Load more
                </Button>
              )}
            </Group>
          </>
        )}
      </Stack>
      {search.entry !== undefined && (
        <EntryDrawer link={link} items={items} isReading={entries.isPending} />
      )}
      {isExporting && <Export filter={filter} onClose={() => setIsExporting(false)} />}
    </>
  );
}

/** How many entries the log has got since it was read, asked each minute while the page is visible. */
function useNewer(filter: LogFilter, total: number | undefined, readAt: number): number {
  const { data: now = 0 } = useQuery({
    queryKey: ["newer", filter, readAt],
    queryFn: async ({ signal }) => (await readLog(filter, { limit: 1, offset: 0 }, signal)).total,
    enabled: total !== undefined,
    initialData: total,
    staleTime: NEWER_MS,
    refetchInterval: NEWER_MS,
    gcTime: 0,
  });
  return Math.max(0, now - (total ?? now));
}
