import { Box, Button, Group } from "@mantine/core";
import { lazy } from "react";
import { Icon } from "../shared/icons.tsx";
import { Dropdown, Late } from "../shared/dropdown.tsx";
import { actionName } from "../shared/parts.tsx";
import { RangePicker } from "../shared/range.tsx";
import { actionsOf } from "../shared/search.ts";
import { loaded } from "../shared/transport.ts";
import { visible } from "../../seals/visible.ts";
import { useLogSearch } from "./use_log_search.ts";

/** Loaded when it opens. */
const FilterForm = lazy(() => loaded(import("./filter_form.tsx")));

/** Chooses the entries: days and time zone in one control, and filters that can be removed. */
export function Toolbar() {
  const { search, change } = useLogSearch();
  const { action, user_email, follow, time = "utc" } = search;
  const actions = actionsOf(search);
  return (
    <Group gap="xs">
      <RangePicker
        search={search}
        label={follow && "Live, since today"}
        // Following has no end, so a choice of days stops it.
        onChange={(range) => change({ follow: undefined, ...range })}
        zone={time}
        onZone={(zone) => change({ ...search, time: zone === "local" ? "local" : undefined })}
      />
      <Dropdown icon="filter" label="Filter" shortcut="/">
        {(close) => (
          <Box w="min(320px, calc(100vw - 64px))">
            <Late height={300}>
              <FilterForm
                filter={{ action, user_email }}
                onSubmit={(filter) => {
                  close();
                  change(filter);
                }}
              />
            </Late>
          </Box>
        )}
      </Dropdown>
      {actions.map((code) => (
        <Chip
          key={code}
          text={`Action: ${actionName(code)}`}
          onRemove={() =>
            change({ action: actions.filter((other) => other !== code).join(",") || undefined })}
        />
      ))}
      {user_email !== undefined && (
        <Chip
          text={`Person: ${user_email}`}
          onRemove={() => change({ user_email: undefined })}
        />
      )}
    </Group>
  );
}

function Chip({ text, onRemove }: { text: string; onRemove: () => void }) {
  return (
    <Button
      variant="light"
      maw="100%"
      rightSection={<Icon name="close" size={12} />}
      aria-label={`${visible(text)}, remove this filter`}
      onClick={onRemove}
    >
      <bdi>{visible(text)}</bdi>
    </Button>
  );
}
