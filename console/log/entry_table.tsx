import { memo, type MouseEvent, useMemo } from "react";
import type { AuditEntry } from "../data/entries.ts";
import { formatTime, TIME_ZONE, type Zone } from "../shared/days.ts";
import { ActionName } from "../shared/parts.tsx";
import { type Column, Table } from "../shared/table.tsx";

/** The address of an entry beside the list at `link`. */
export function entryLink(link: string, { id, created_at }: AuditEntry): string {
  return `${link}&entry=${id}&at=${encodeURIComponent(created_at)}`;
}

export interface EntryTableProps {
  link: string;
  entries: AuditEntry[];
  zone: Zone;
  openId: string | undefined;
  onOpen: (entry: AuditEntry | undefined) => void;
}

export const EntryTable = memo(function EntryTable(props: EntryTableProps) {
  const { link, entries, zone, openId, onOpen } = props;
  const columns = useMemo((): Column<AuditEntry>[] => {
    return [
      {
        name: `Time (${zone === "utc" ? "UTC" : TIME_ZONE})`,
        width: zone === "utc" ? "180px" : "240px",
        cell: (entry, tabIndex) => (
          <a href={entryLink(link, entry)} tabIndex={tabIndex}>
            <time dateTime={entry.created_at}>{formatTime(entry.created_at, zone)}</time>
          </a>
        ),
      },
      {
        name: "Action",
        width: "minmax(156px, 1fr)",
        cell: ({ action }) => <ActionName code={action} />,
      },
      { name: "Person", width: "minmax(0, 1.4fr)", value: (entry) => entry.user_email },
      { name: "Agent", width: "var(--agent, minmax(0, 1fr))", value: (entry) => entry.agent_name },
    ];
  }, [zone, link]);
  function press(row: number, event: MouseEvent<HTMLElement>) {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    // Selecting text in a row does not open it. A key press on its link does, also while text is selected.
    if (event.detail > 0 && !getSelection()?.isCollapsed) return;
    onOpen(entries[row]);
  }
  return (
    <Table
      label="Entries"
      columns={columns}
      rows={entries}
      idOf={({ id }) => id}
      openId={openId}
      onPress={press}
    />
  );
});
