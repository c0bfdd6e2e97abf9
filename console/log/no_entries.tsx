import { Button, Group } from "@mantine/core";
import { PRESETS } from "../shared/days.ts";
import { Empty } from "../shared/parts.tsx";
import { ALL_TIME, conditionsOf, daysOf, NO_FILTER } from "../shared/search_params.ts";
import { useLogSearch } from "./use_log_search.ts";

export function NoEntries() {
  const { search, change } = useLogSearch();
  const isFiltered = conditionsOf(search).length > 0;
  const isAll = daysOf(search).start === PRESETS.all.days().start;
  return (
    <Empty title="No entries">
      <p>
        {isFiltered
          ? `No entry ${isAll ? "" : "of these days "}matches this filter.`
          : isAll
          ? "Nothing is logged yet. The first entry appears here as soon as the platform writes it."
          : "These days have none."}
      </p>
      <Group gap="xs" mt="sm">
        {isFiltered && <Button onClick={() => change(NO_FILTER)}>Remove the filter</Button>}
        {!isAll && <Button onClick={() => change(ALL_TIME)}>Show all time</Button>}
      </Group>
    </Empty>
  );
}
