import { Drawer } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type AuditEntry, type LogFilter, parseEntries, readFeed } from "./data.ts";
import { dayOf, formatTime, TIME_ZONE } from "./days.ts";
import { Copy, Copyable, Empty, Failure, Loading } from "./parts.tsx";

export interface EntryDetailProps {
  /** The entry that the address names, if it names one. */
  id: string | undefined;
  /** That entry, if it is on the page. */
  shown: AuditEntry | undefined;
  isReading: boolean;
  filter: LogFilter;
  onClose: () => void;
}

/** One entry, whole. */
export function EntryDetail({ id, shown, isReading, filter, onClose }: EntryDetailProps) {
  const day = id && dayIn(id);
  const search = useQuery({
    queryKey: ["log", filter.organizationId, "entry", id, filter.action],
    queryFn: ({ signal }) => findEntry({ ...filter, start: day || "", end: day || "" }, id, signal),
    enabled: Boolean(day) && !shown && !isReading,
  });
  const entry = shown ?? search.data;
  return (
    <Drawer
      opened={id !== undefined}
      onClose={onClose}
      position="right"
      size={560}
      title="Entry"
    >
      {entry
        ? <Entry entry={entry} />
        : isReading || search.isLoading
        ? <Loading what="the entry" />
        : search.error
        ? <Failure error={search.error} onRetry={search.refetch} />
        : (
          <Empty title="Not here">
            This entry is not on this page. Choose the days and the page that it is on.
          </Empty>
        )}
    </Drawer>
  );
}

function Entry({ entry }: { entry: AuditEntry }) {
  return (
    <>
      <dl>
        <dt>Time</dt>
        <dd>
          {formatTime(entry.created_at, "utc", true)} UTC
          <div className="hint">{formatTime(entry.created_at, "local", true)} {TIME_ZONE}</div>
        </dd>
        <dt>Action</dt>
        <dd>
          <code>{entry.action}</code>
        </dd>
        <dt>User</dt>
        <dd>
          <bdi>{entry.user_email}</bdi>
        </dd>
        <dt>Agent</dt>
        <dd>
          <bdi>{entry.agent_name}</bdi>
        </dd>
        <dt>ID</dt>
        <dd>
          <code>{entry.id}</code>
          <div className="row">
            <Copy label="ID" text={entry.id} />
            <Copy label="link" text={location.href} />
          </div>
        </dd>
      </dl>
      <Copyable title="JSON" label="JSON" text={JSON.stringify(entry, null, 2)} />
    </>
  );
}

/** The day in an id that begins with its time (a UUID of version 7); empty for any other. */
function dayIn(id: string): string {
  if (!/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/.test(id)) return "";
  return dayOf(parseInt(id.replace("-", "").slice(0, 12), 16));
}

/** Pages that are searched for an entry. */
const MAX_PAGES = 20;

/** Looks for an entry that newer ones have pushed to another page. */
async function findEntry(
  filter: LogFilter,
  id: string | undefined,
  signal: AbortSignal,
): Promise<AuditEntry | null> {
  let after = "beginning";
  for (let page = 0; page < MAX_PAGES; page++) {
    const { items, next, isCaughtUp } = await readFeed(filter, after, signal);
    const found = items.find((item) => item.startsWith(`{"id":"${id}"`));
    if (found) return parseEntries(`[${found}]`)[0] ?? null;
    if (isCaughtUp) return null;
    after = next;
  }
  return null;
}
