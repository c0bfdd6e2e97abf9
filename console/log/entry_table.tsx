import { Text } from "@mantine/core";
import { defaultStringifySearch } from "@tanstack/react-router";
import { memo, type MouseEvent, useMemo } from "react";
import { type AuditEntry, useActions } from "../data/entries.ts";
import { useOrganization } from "../data/organizations.ts";
import { actionName, Time } from "../shared/parts.tsx";
import { ALL_TIME } from "../shared/search_params.ts";
import { type Column, Table } from "../shared/table.tsx";
import { visible } from "../../supabase/functions/_shared/visible.ts";
import { changesOf, targetOf, writtenChange } from "./facts.ts";

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
  const { id: organizationId } = useOrganization();
  const { data: catalogue } = useActions();
  const columns = useMemo((): Column<AuditEntry>[] => {
    const descriptions = new Map(catalogue?.map(({ code, description }) => [code, description]));
    return [
      {
        name: "Time (UTC)",
        width: "160px",
        cell: (entry) => (
          <a href={entryLink(link, entry)}>
            <Time value={entry.created_at} />
          </a>
        ),
      },
      { name: "Person", width: "24%", value: ({ user_email }) => user_email },
      {
        name: "Action",
        isRowHeader: true,
        onPhone: "line",
        cell: (entry) => (
          <span title={descriptions.get(entry.action)}>
            {actionName(entry.action)}
            <Text span inherit c="dimmed" fw={400} ml={8}>
              {changesOf(entry).map(writtenChange).join(", ")}
            </Text>
          </span>
        ),
      },
      {
        name: "Target",
        width: "20%",
        cell: (entry) => {
          const target = targetOf(entry, catalogue ?? []);
          if (!target) return null;
          // Not a Link: a thousand of them would each follow the address.
          const search = defaultStringifySearch({ ...ALL_TIME, object: target.id });
          return (
            <a href={`#/${organizationId}/log${search}`} title="All about this" data-target>
              <bdi>{visible(target.name)}</bdi>
            </a>
          );
        },
      },
      ...AGENT_LABEL
        ? [{
          name: AGENT_LABEL,
          width: "14%",
          onPhone: "left out" as const,
          value: (entry: AuditEntry) => entry.agent_name,
        }]
        : [],
    ];
  }, [link, catalogue, organizationId]);
  function press(entry: AuditEntry, event: MouseEvent<HTMLElement>) {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    if ((event.target as Element).closest("[data-target]")) return;
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
