import { Box, Button, Group } from "@mantine/core";
import { lazy } from "react";
import { Icon } from "../shared/icons.tsx";
import { Dropdown, Late } from "../shared/dropdown.tsx";
import { countDays, PRESETS } from "../shared/days.ts";
import { RangePicker } from "../shared/range.tsx";
import { conditionsOf, daysOf } from "../shared/search_params.ts";
import { loaded } from "../shared/transport.ts";
import { useLogSearch } from "./use_log_search.ts";

/** Loaded when it opens. */
const FilterForm = lazy(() => loaded(import("./filter_form.tsx")));

/** Chooses the entries: days, and filters that can be removed. */
export function Toolbar() {
  const { search, change } = useLogSearch();
  const { follow } = search;
  // Whoever looks for a person or an object may take what these days have for all of it.
  const isPart = conditionsOf({ ...search, action: undefined }).length > 0 && !follow &&
    countDays(daysOf(search)) < countDays(PRESETS["90d"].days());
  return (
    <Group gap="xs">
      <RangePicker
        search={search}
        label={follow && "Live, since today"}
        // Following has no end, so a choice of days stops it.
        onChange={(range) => change({ follow: undefined, ...range })}
      />
      <Dropdown icon="filter" label="Filter" shortcut="/">
        {(close) => (
          <Box w="min(320px, calc(100vw - 64px))">
            <Late height={300}>
              <FilterForm
                filter={search}
                onSubmit={(filter) => {
                  close();
                  change(filter);
                }}
              />
            </Late>
          </Box>
        )}
      </Dropdown>
      {conditionsOf(search).map(({ text, without }) => (
        <Button
          key={text}
          variant="light"
          maw="100%"
          rightSection={<Icon name="close" size={12} />}
          aria-label={`${text}, remove this filter`}
          onClick={() => change(without)}
        >
          <bdi>{text}</bdi>
        </Button>
      ))}
      {isPart && (
        <Button
          variant="transparent"
          px={4}
          onClick={() => change({ range: "90d", start: undefined, end: undefined })}
        >
          Only these days. Show the last 90
        </Button>
      )}
    </Group>
  );
}
