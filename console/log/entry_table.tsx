import { Text } from "@mantine/core";
import { memo, type MouseEvent, useMemo } from "react";
import { type AuditEntry, useActions } from "../data/entries.ts";
import { formatTime } from "../shared/days.ts";
import { ActionName, Time } from "../shared/parts.tsx";
import { type Column, Table } from "../shared/table.tsx";
import { changesOf, writtenChange } from "./facts.ts";

/** The address of an entry beside the list at `link`. */
export function entryLink(link: string, { id, created_at }: AuditEntry): string {
  return `${link}&entry=${id}&at=${encodeURIComponent(created_at)}`;
}

/** What the platform calls `agent_name`. Empty: it is not shown. */
export const AGENT_LABEL = import.meta.env.VITE_AGENT_LABEL ?? "Agent";

interface EntryTableProps {
  link: string;
  entries: AuditEntry[];
  onOpen: (entry: AuditEntry | undefined) => void;
}

export const EntryTable = memo(function EntryTable(props: EntryTableProps) {
  const { link, entries, onOpen } = props;
  const { data: catalogue } = useActions();
  const columns = useMemo((): Column<AuditEntry>[] => {
    const descriptions = new Map(catalogue?.map(({ code, description }) => [code, description]));
    return [
      {
        name: "Time (UTC)",
        width: "190px",
        cell: (entry) => (
          <a href={entryLink(link, entry)}>
            <Time value={entry.created_at}>{formatTime(entry.created_at)}</Time>
          </a>
        ),
      },
      {
        name: "Action",
        cell: (entry) => (
          <span title={descriptions.get(entry.action)}>
            <ActionName code={entry.action} />
            <Text span inherit c="dimmed" ml={8}>
              {changesOf(entry).map(writtenChange).join(", ")}
            </Text>
          </span>
        ),
      },
      { name: "Person", width: "28%", value: (entry) => entry.user_email },
      ...AGENT_LABEL
        ? [{ name: AGENT_LABEL, width: "18%", value: (entry: AuditEntry) => entry.agent_name }]
        : [],
    ];
  }, [link, catalogue]);
  function press(entry: AuditEntry, event: MouseEvent<HTMLElement>) {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    // Selecting text in a row does not open it. A key press on its link does, also while text is selected.
    if (event.detail > 0 && !getSelection()?.isCollapsed) return;
    onOpen(entry);
  }
  return (
    <Table
      label="Entries"
      columns={columns}
      rows={entries}
      idOf={({ id }) => id}
      onPress={press}
    />
  );
});
