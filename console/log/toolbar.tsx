import { Box, Button, Popover } from "@mantine/core";
import { useWindowEvent } from "@mantine/hooks";
import { useState } from "react";
import { PRESETS } from "../shared/days.ts";
import { Icon } from "../shared/icons.tsx";
import { RangePicker } from "../shared/range.tsx";
import { ALL_TIME, conditionsOf, daysOf } from "../shared/search_params.ts";
import { FilterForm } from "./filter_form.tsx";
import { useLogSearch } from "./use_log_search.ts";

export function Toolbar() {
  const { search, change } = useLogSearch();
  const [isOpen, setIsOpen] = useState(false);
  // The browser's Back leads to another list, for which the form is too late.
  useWindowEvent("popstate", () => setIsOpen(false));
  // Whoever looks for a person or an object may take what these days have for all of it.
  const isPart = conditionsOf({ ...search, action: undefined }).length > 0 &&
    daysOf(search).start !== PRESETS.all.days().start;
  return (
    <RangePicker search={search} onChange={change}>
      <Popover
        opened={isOpen}
        onChange={setIsOpen}
        trapFocus
        returnFocus
        shadow="md"
        position="bottom-start"
      >
        <Popover.Target>
          <Button leftSection={<Icon name="filter" />} onClick={() => setIsOpen(!isOpen)}>
            Filter
          </Button>
        </Popover.Target>
        <Popover.Dropdown>
          <Box w="min(320px, calc(100vw - 64px))">
            <FilterForm
              filter={search}
              onSubmit={(filter) => {
                setIsOpen(false);
                change(filter);
              }}
            />
          </Box>
        </Popover.Dropdown>
      </Popover>
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
          onClick={() => change(ALL_TIME)}
        >
          Only these days. Show all time
        </Button>
      )}
    </RangePicker>
  );
}
