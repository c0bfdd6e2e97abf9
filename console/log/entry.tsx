import { ActionIcon, Box, Button, Group, Tabs } from "@mantine/core";
import { useFocusTrap, useHotkeys, useMediaQuery, useMergedRef } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { type AuditEntry, readEntry, useActions } from "../data/entries.ts";
import { useOrganization } from "../data/organizations.ts";
import { Copy, Copyable } from "../shared/copy.tsx";
import { dayOf, formatTime } from "../shared/days.ts";
import { giveFocusBack, isDialogOpen } from "../shared/dialog.tsx";
import { Icon } from "../shared/icons.tsx";
import { ActionName, Empty, Failure, Loading } from "../shared/parts.tsx";
import { AUDIT_LOG_URL } from "../shared/transport.ts";
import styles from "./entry.module.css";
import { EntryFields, Sentence } from "./entry_fields.tsx";
import { entryLink } from "./entry_table.tsx";
import { useLogSearch } from "./use_log_search.ts";

interface EntryPanelProps {
  /** The list's address with fixed days. */
  link: string;
  items: AuditEntry[] | undefined;
  isReading: boolean;
}

export function EntryPanel(props: EntryPanelProps) {
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
  const newer = items[index - 1];
  const older = shown && items[index + 1];
  const panel = useRef<HTMLDivElement>(null);
  // On a narrow screen the panel covers the list, so it keeps the focus.
  const isOver = useMediaQuery("(max-width: 61.99em)");
  const ref = useMergedRef(panel, useFocusTrap(isOver));
  const close = () => {
    open(undefined);
    document.querySelector<HTMLElement>("tr[aria-selected] a")?.focus({ preventScroll: true });
  };
  useEffect(() => {
    panel.current?.focus({ preventScroll: true });
    // A button that leads to other entries goes with the panel.
    return () => {
      if (document.activeElement === document.body) giveFocusBack();
    };
  }, []);
  useHotkeys([
    ["j", () => older && open(older)],
    ["k", () => newer && open(newer)],
    ["Escape", () => {
      if (!isDialogOpen()) close();
    }],
  ]);
  return (
    <div
      ref={ref}
      className={styles.panel}
      role={isOver ? "dialog" : "complementary"}
      aria-modal={isOver || undefined}
      aria-label="Entry"
      tabIndex={-1}
    >
      <Group justify="space-between" wrap="nowrap" gap="xs">
        <h2>{entry ? <ActionName code={entry.action} /> : "Entry"}</h2>
        <Group gap={4} wrap="nowrap">
          {([["Newer entry (K)", "up", newer], ["Older entry (J)", "down", older]] as const)
            .map(([name, icon, to]) => (
              <ActionIcon
                key={name}
                aria-label={name}
                title={name}
                disabled={!to}
                {...to ? {} : { bg: "transparent" }}
                onClick={() => open(to)}
              >
                <Icon name={icon} />
              </ActionIcon>
            ))}
          <ActionIcon aria-label="Close" onClick={close}>
            <Icon name="close" />
          </ActionIcon>
        </Group>
      </Group>
      <Failure error={entry ? null : found.error} onRetry={found.refetch} />
      {entry && <Entry entry={entry} link={entryLink(link, entry)} />}
      {!entry && isLoading && <Loading what="the entry" />}
      {!entry && !isLoading && !found.error && (
        <Empty title="No such entry">
          <p>
            The log has no entry with this id
            {at && ` at ${formatTime(at)} UTC`}. Retention may have deleted it, or a part of the
            link is missing.
          </p>
          <Button
            mt="sm"
            onClick={() => {
              const days = at ? { range: undefined, start: dayOf(at), end: dayOf(at) } : {};
              change({ ...days, follow: undefined });
            }}
          >
            {at ? `Show ${dayOf(at)}` : "Show the log"}
          </Button>
        </Empty>
      )}
    </div>
  );
}

function Entry({ entry, link }: { entry: AuditEntry; link: string }) {
  return (
    <Tabs defaultValue="fields" keepMounted={false}>
      <Sentence entry={entry} />
      <Group gap="xs" my={10}>
        <Copy label="id" text={entry.id} />
        <Copy label="link to the entry" text={link} />
        <Copy
          label="address in the API"
          text={`${AUDIT_LOG_URL}/entries/${entry.id}?created_at=${entry.created_at}`}
        />
      </Group>
      <Tabs.List>
        <Tabs.Tab value="fields">Fields</Tabs.Tab>
        <Tabs.Tab value="json">JSON</Tabs.Tab>
      </Tabs.List>
      <Tabs.Panel value="fields">
        <EntryFields entry={entry} />
      </Tabs.Panel>
      <Tabs.Panel value="json">
        <Box mt="sm">
          <Copyable title="JSON" text={JSON.stringify(entry, null, 2)} />
        </Box>
      </Tabs.Panel>
    </Tabs>
  );
}
