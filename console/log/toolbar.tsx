import { Button, Group, NativeSelect, Stack, TextInput } from "@mantine/core";
import { useInputState } from "@mantine/hooks";
import { useActions } from "../data/entries.ts";
import { Icon } from "../shared/icons.tsx";
import { Dropdown } from "../shared/dropdown.tsx";
import { actionName } from "../shared/parts.tsx";
import { RangePicker } from "../shared/range.tsx";
import type { Filter } from "../shared/search.ts";
import { visible } from "../shared/visible.ts";
import { useLogSearch } from "./use_log_search.ts";

/** Chooses the entries: days and time zone in one control, and filters that can be removed. */
export function Toolbar() {
  const { search, change } = useLogSearch();
  const { action, person, follow, time = "utc" } = search;
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
      <Dropdown icon="filter" label="Filter">
        {(close) => (
          <FilterForm
            filter={{ action, person }}
            onSubmit={(filter) => {
              close();
              change(filter);
            }}
          />
        )}
      </Dropdown>
      {action && (
        <Chip
          text={`Action: ${actionName(action)}`}
          onRemove={() => change({ action: undefined })}
        />
      )}
      {person && <Chip text={`Person: ${person}`} onRemove={() => change({ person: undefined })} />}
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
      aria-label={`${visible(text)}, remove this filter`}
      onClick={onRemove}
    >
      <bdi>{visible(text)}</bdi>
    </Button>
  );
}
