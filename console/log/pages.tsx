import { Button, Group, NativeSelect, Pagination } from "@mantine/core";
import type { LogPage } from "../data/entries.ts";
import { count } from "../shared/days.ts";
import { Empty } from "../shared/parts.tsx";
import { PAGE_SIZES } from "../shared/search_params.ts";
import { NoEntries } from "./no_entries.tsx";
import { useLogSearch } from "./use_log_search.ts";

export function Pages({ data: { offset, total, items } }: { data: LogPage }) {
  const { search, change } = useLogSearch();
  const { page = 1, size = PAGE_SIZES[0] } = search;
  const last = Math.max(1, Math.ceil(total / size));
  if (total === 0) return <NoEntries />;
  if (items.length === 0) {
    return (
      <Empty title="No such page">
        <Button onClick={() => change({ page: last })}>Show the last page</Button>
      </Empty>
    );
  }
  return (
    <Group justify="space-between">
      <span role="status">
        {(offset + 1).toLocaleString("en")}–{(offset + items.length).toLocaleString("en")} of{" "}
        {count(total, "entry", "entries")}, newest first
      </span>
      <Group gap="xs">
        <NativeSelect
          aria-label="Entries on a page"
          data={PAGE_SIZES.map((size) => ({ value: String(size), label: `${size} a page` }))}
          value={String(size)}
          onChange={({ currentTarget: { value } }) =>
            change({ size: PAGE_SIZES.find((size) => String(size) === value) })}
        />
        <Pagination
          total={last}
          value={page}
          onChange={(page) => change({ page })}
          getControlProps={(control) => ({
            "aria-label": control === "next" ? "Older entries" : "Newer entries",
          })}
        />
      </Group>
    </Group>
  );
}
