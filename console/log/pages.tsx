import { Button, Group, NativeSelect, Pagination } from "@mantine/core";
import { count } from "../shared/days.ts";
import { Empty } from "../shared/parts.tsx";
import type { LogAddress } from "./address.ts";
import type { LogPage } from "./data.ts";

const PAGE_SIZES = ["50", "100", "1000"];
export const DEFAULT_PAGE_SIZE = 50;

export interface PagesProps {
  page: number;
  size: number;
  data: LogPage;
  /** Whether other entries may be in these days. */
  isFiltered: boolean;
  onPage: (page: number) => void;
  onSize: (size: LogAddress["size"]) => void;
}

/** Which entries are shown, of how many, and the way to the others. */
export function Pages(props: PagesProps) {
  const { page, size, data: { offset, total, items }, isFiltered, onPage, onSize } = props;
  const last = Math.max(1, Math.ceil(total / size));
  if (total === 0) {
    return (
      <Empty title="No entries">
        {isFiltered
          ? "None in these days with this filter. Choose other days, or remove the filter."
          : "None in these days. Choose others."}
      </Empty>
    );
  }
  if (items.length === 0) {
    return (
      <Empty title="No such page">
        <Button variant="default" onClick={() => onPage(last)}>Show the last page</Button>
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
          data={PAGE_SIZES.map((size) => ({ value: size, label: `${size} a page` }))}
          value={String(size)}
          onChange={({ currentTarget: { value } }) =>
            onSize(value === "100" ? 100 : value === "1000" ? 1000 : undefined)}
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
      </Group>
    </Group>
  );
}
