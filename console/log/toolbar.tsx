import { Button, Group, NativeSelect, Stack, TextInput } from "@mantine/core";
import { useInputState } from "@mantine/hooks";
import { useActions } from "../data/entries.ts";
import { Icon } from "../shared/icons.tsx";
import { actionName, Dropdown } from "../shared/parts.tsx";
import { RangePicker } from "../shared/range.tsx";
import type { Preset } from "../shared/days.ts";
import type { Filter, LogSearch } from "../shared/search.ts";

/** The days that the log shows if its address names none. */
export const LOG_PRESET: Preset = "7d";

export interface ToolbarProps {
  search: LogSearch;
  onChange: (changes: Partial<LogSearch>) => void;
  onZone: (time: LogSearch["time"]) => void;
}

/** Chooses the entries: days and time zone in one control, and filters that can be removed. */
export function Toolbar({ search, onChange, onZone }: ToolbarProps) {
  const { action, person, follow, time = "utc" } = search;
  return (
    <Group gap="xs">
      <RangePicker
        search={search}
        preset={LOG_PRESET}
        label={follow && "Live, since today"}
        // Following has no end, so a choice of days stops it.
        onChange={(range) => onChange({ follow: undefined, ...range })}
        zone={time}
        onZone={(zone) => onZone(zone === "local" ? "local" : undefined)}
      />
      <Dropdown icon="filter" label="Filter">
        {(close) => (
          <FilterForm
            filter={{ action, person }}
            onSubmit={(filter) => {
              close();
              onChange(filter);
            }}
          />
        )}
      </Dropdown>
      {action && (
        <Chip
          text={`Action: ${actionName(action)}`}
          onRemove={() => onChange({ action: undefined })}
        />
      )}
      {person && (
        <Chip
          text={`Person: ${person}`}
          onRemove={() => onChange({ person: undefined })}
        />
      )}
    </Group>
  );
}

function FilterForm({ filter, onSubmit }: { filter: Filter; onSubmit: (filter: Filter) => void }) {
  const { data = [], error } = useActions();
  const [action, setAction] = useInputState(filter.action ?? "");
  const [person, setPerson] = useInputState(filter.person ?? "");
  const optionsOf = (isDeprecated: boolean) =>
    data.filter(({ deprecated_at }) => (deprecated_at !== null) === isDeprecated)
      .map(({ code }) => ({ value: code, label: actionName(code) }));
  const isUnknown = action !== "" && !data.some(({ code }) => code === action);
  return (
    <Stack
      component="form"
      gap="xs"
      w={260}
      onSubmit={(event) => {
        event.preventDefault();
        onSubmit({ action: action || undefined, person: person.trim() || undefined });
      }}
    >
      <TextInput
        label="Person"
        description="The whole e-mail address, with the same capitals as in the entries."
        placeholder="ada@example.com"
        inputMode="email"
        data-autofocus
        value={person}
        onChange={setPerson}
      />
      <NativeSelect
        label="Action"
        data={[
          { value: "", label: "All actions" },
          ...isUnknown ? [{ value: action, label: actionName(action) }] : [],
          ...optionsOf(false),
          { group: "Deprecated", items: optionsOf(true) },
        ]}
        value={action}
        error={error?.message}
        onChange={setAction}
      />
      <Group justify="flex-end">
        <Button type="submit" variant="filled">Show</Button>
      </Group>
    </Stack>
  );
}

function Chip({ text, onRemove }: { text: string; onRemove: () => void }) {
  return (
    <Button
      variant="light"
      maw="100%"
      rightSection={<Icon name="close" size={12} />}
      aria-label={`${text}, remove this filter`}
      onClick={onRemove}
    >
      <bdi>{text}</bdi>
    </Button>
  );
}
