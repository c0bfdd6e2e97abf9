import { Box, Button, Group } from "@mantine/core";
import { lazy } from "react";
import { Icon } from "../shared/icons.tsx";
import { Dropdown, Late } from "../shared/dropdown.tsx";
import { countDays, PRESETS } from "../shared/days.ts";
import { actionName } from "../shared/parts.tsx";
import { RangePicker } from "../shared/range.tsx";
import { actionsOf, daysOf, type Filter } from "../shared/search_params.ts";
import { loaded } from "../shared/transport.ts";
import { visible } from "../../supabase/functions/_shared/visible.ts";
import { useLogSearch } from "./use_log_search.ts";

/** Loaded when it opens. */
const FilterForm = lazy(() => loaded(import("./filter_form.tsx")));

/** Chooses the entries: days, and filters that can be removed. */
export function Toolbar() {
  const { search, change } = useLogSearch();
  const { user_email, object, follow } = search;
  const actions = actionsOf(search);
  const chips: { text: string; without: Filter }[] = actions.map((code) => ({
    text: `Action: ${visible(actionName(code))}`,
    without: { action: actions.filter((other) => other !== code).join(",") || undefined },
  }));
  if (user_email !== undefined) {
    chips.push({ text: `Person: ${visible(user_email)}`, without: { user_email: undefined } });
  }
  if (object !== undefined) {
    chips.push({ text: `About: ${visible(object)}`, without: { object: undefined } });
  }
  // Whoever looks for a person or an object may take what these days have for all of it.
  const isPart = (user_email ?? object) !== undefined && !follow &&
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
      {chips.map(({ text, without }) => (
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
