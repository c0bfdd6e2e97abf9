import { Button, Group } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { readLog } from "../data/entries.ts";
import { useOrganization } from "../data/organizations.ts";
import { useHasStreams } from "../data/streams.ts";
import { dayOf, PRESETS } from "../shared/days.ts";
import { Empty } from "../shared/parts.tsx";
import { conditionsOf, filterOf, NO_FILTER } from "../shared/search_params.ts";
import { useLogSearch } from "./use_log_search.ts";

/** Leads from days without entries to the newest entry, or says that there is none. */
export function NoEntries() {
  const { search, change } = useLogSearch();
  const { id: organizationId, is_admin } = useOrganization();
  const hasStreams = useHasStreams(organizationId);
  const filter = filterOf(search);
  const isFiltered = conditionsOf(filter).length > 0;
  const { data } = useQuery({
    queryKey: ["log", organizationId, "newest", filter],
    queryFn: ({ signal }) =>
      readLog(
        { organizationId, ...PRESETS.all.days(), ...filter },
        { limit: 1, offset: 0 },
        signal,
      ),
  });
  const newest = data?.items[0];
  const day = newest && dayOf(newest.created_at);
  const isNew = data !== undefined && !newest && !isFiltered;
  return (
    <Empty title="No entries">
      <p>
        {isNew
          ? "Nothing is logged yet. The first entry appears here as soon as the platform writes it."
          : isFiltered
          ? "No entry of these days matches this filter."
          : "These days have none."} {day && `The newest is from ${day}.`}
        {isFiltered && data && !day && "Other days have none either."}
      </p>
      {isNew && is_admin && hasStreams && (
        <Link from="/$organizationId/log" to="/$organizationId/streams">
          Meanwhile, choose where the log goes
        </Link>
      )}
      <Group gap="xs" mt="sm">
        {isFiltered && <Button onClick={() => change(NO_FILTER)}>Remove the filter</Button>}
        {day && (
          <Button onClick={() => change({ range: undefined, start: day, end: day })}>
            Show {day}
          </Button>
        )}
      </Group>
    </Empty>
  );
}
