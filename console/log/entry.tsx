import { ActionIcon, Button, Drawer, Group } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { type AuditEntry, readEntry, useActions } from "../data/entries.ts";
import { useOrganization } from "../data/organizations.ts";
import { Copy, Copyable } from "../shared/copy.tsx";
import { dayOf, formatTime } from "../shared/days.ts";
import { Icon } from "../shared/icons.tsx";
import { actionName, Empty, Failure, Loading } from "../shared/parts.tsx";
import { EntryFields, Sentence } from "./entry_fields.tsx";
import { entryLink } from "./entry_table.tsx";
import { useLogSearch } from "./use_log_search.ts";

interface EntryDrawerProps {
  /** The list's address with fixed days. */
  link: string;
  items: AuditEntry[] | undefined;
  isReading: boolean;
}

export function EntryDrawer(props: EntryDrawerProps) {
  const { link, items = [], isReading } = props;
  const { search: { entry: id = "", at = "" }, change, open } = useLogSearch();
  const organization = useOrganization();
  const index = items.findIndex((entry) => entry.id === id && (!at || entry.created_at === at));
  const shown = items[index];
  const found = useQuery({
    queryKey: ["entry", organization.id, id, at],
    queryFn: ({ signal }) =>
      readEntry({ organization_id: organization.id, id, created_at: at }, signal),
    enabled: !shown && !isReading && at !== "",
    staleTime: Infinity,
  });
  // Without the catalogue, its sentence would grow a moment later.
  const { isPending: isUnexplained } = useActions();
  const entry = isUnexplained ? undefined : shown ?? found.data;
  const isLoading = isReading || found.isLoading || isUnexplained;
  useEffect(() => () => {
    // A button that leads to other entries goes with the drawer.
    if (document.activeElement === document.body) document.querySelector("main")?.focus();
  }, []);
  return (
    <Drawer
      opened
      position="right"
      title={entry ? actionName(entry.action) : "Entry"}
      // The row of the entry that was shown last gets the focus.
      returnFocus={false}
      onClose={() => {
        open(undefined);
        document.querySelector<HTMLElement>(`td a[href*="${id}"]`)?.focus({ preventScroll: true });
      }}
    >
      <Failure error={entry ? null : found.error} onRetry={found.refetch} />
      {entry && (
        <Entry
          entry={entry}
          link={entryLink(link, entry)}
          newer={items[index - 1]}
          older={shown && items[index + 1]}
        />
      )}
      {!entry && isLoading && <Loading what="the entry" />}
      {!entry && !isLoading && !found.error && (
        <Empty title="No such entry">
          <p>
            The log has no entry with this id
            {at && ` at ${formatTime(at)} UTC`}. It may have been deleted because of its age, or a
            part of the link is missing.
          </p>
          <Button
            mt="sm"
            onClick={() => change(at ? { range: undefined, start: dayOf(at), end: dayOf(at) } : {})}
          >
            {at ? `Show ${dayOf(at)}` : "Show the log"}
          </Button>
        </Empty>
      )}
    </Drawer>
  );
}

interface EntryProps {
  entry: AuditEntry;
  link: string;
  newer: AuditEntry | undefined;
  older: AuditEntry | undefined;
}

function Entry({ entry, link, newer, older }: EntryProps) {
  const { open } = useLogSearch();
  return (
    <>
      <Group gap={4}>
        {([["Newer entry", "up", newer], ["Older entry", "down", older]] as const)
          .map(([name, icon, to]) => (
            <ActionIcon
              key={name}
              variant="default"
              aria-label={name}
              title={name}
              disabled={!to}
              onClick={() => open(to)}
            >
              <Icon name={icon} />
            </ActionIcon>
          ))}
        <Copy label="link" text={link} />
      </Group>
      <Sentence entry={entry} />
      <EntryFields entry={entry} />
      <details>
        <summary>JSON</summary>
        <Copyable title="JSON" text={JSON.stringify(entry, null, 2)} />
      </details>
    </>
  );
}
