import { Button, Stack, VisuallyHidden } from "@mantine/core";
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { useRouter } from "@tanstack/react-router";
import { useState } from "react";
import { type LogFilter, readLog } from "../data/entries.ts";
import { useEntryCounts } from "../data/log_days.ts";
import { useOrganization } from "../data/organizations.ts";
import { Export } from "../export/export.tsx";
import { Copy } from "../shared/copy.tsx";
import { count } from "../shared/days.ts";
import { Icon } from "../shared/icons.tsx";
import { Failure, Head, Loading } from "../shared/parts.tsx";
import { daysOf, filterOf, PAGE_SIZES } from "../shared/search_params.ts";
import { CONSOLE_URL } from "../shared/transport.ts";
import { EntryDrawer } from "./entry.tsx";
import { EntryTable } from "./entry_table.tsx";
import { Histogram } from "./histogram.tsx";
import styles from "./log.module.css";
import { Pages } from "./pages.tsx";
import { Toolbar } from "./toolbar.tsx";
import { useLogSearch } from "./use_log_search.ts";

const NEWER_MS = 60_000;

export function Log() {
  const organization = useOrganization();
  const { search, change, open } = useLogSearch();
  const queryClient = useQueryClient();
  const [isExporting, setIsExporting] = useState(false);
  const days = daysOf(search);
  const filter = { organizationId: organization.id, ...days, ...filterOf(search) };
  const { page = 1, size = PAGE_SIZES[0] } = search;
  const entries = useQuery({
    queryKey: ["log", organization.id, "page", filter, page, size],
    // A slow answer never shows under another filter, because it belongs to its key.
    queryFn: ({ signal }) => readLog(filter, { limit: size, offset: (page - 1) * size }, signal),
    placeholderData: keepPreviousData,
  });
  const counts = useEntryCounts(filter);
  const newer = useNewer(filter, entries);
  const news = newer > 0 && count(newer, "new entry", "new entries");
  const items = entries.data?.items;
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
          loading={entries.isFetching && !entries.isPending}
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
        {items && items.length > 0 && <EntryTable link={link} entries={items} onOpen={open} />}
        {entries.data && <Pages data={entries.data} />}
      </Stack>
      {search.entry !== undefined && (
        <EntryDrawer link={link} items={items} isReading={entries.isPending} />
      )}
      {isExporting && <Export filter={filter} onClose={() => setIsExporting(false)} />}
    </>
  );
}

/** How many entries the log has got since it was read, asked each minute while the page is visible. */
function useNewer(
  filter: LogFilter,
  { data, dataUpdatedAt }: { data: { total: number } | undefined; dataUpdatedAt: number },
): number {
  const total = data?.total ?? 0;
  const { data: now } = useQuery({
    queryKey: ["newer", filter, dataUpdatedAt],
    queryFn: async ({ signal }) => (await readLog(filter, { limit: 1, offset: 0 }, signal)).total,
    enabled: data !== undefined,
    initialData: total,
    staleTime: NEWER_MS,
    refetchInterval: NEWER_MS,
    gcTime: 0,
  });
  return Math.max(0, now - total);
}
