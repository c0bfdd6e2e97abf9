import { Button, Group, NativeSelect, Popover, Stack, TextInput } from "@mantine/core";
import { useState } from "react";
import { actionName } from "../shared/action.tsx";
import { Icon } from "../shared/icons.tsx";
import { RangePicker } from "../shared/range.tsx";
import type { LogAddress } from "./address.ts";
import { useActions } from "./data.ts";

export interface ToolbarProps {
  organizationId: string;
  address: LogAddress;
  onChange: (changes: Partial<LogAddress>) => void;
  onZone: (time: LogAddress["time"]) => void;
}

/** Which entries are shown: days and time zone in one control, and filters that can be taken off. */
export function Toolbar({ organizationId, address, onChange, onZone }: ToolbarProps) {
  const { action, person } = address;
  const [isOpen, setIsOpen] = useState(false);
  return (
    <Group gap="xs">
      <RangePicker
        address={address}
        label={address.follow && "Live, since today"}
        // What is followed has no end: whoever chooses days wants to see those.
        onChange={(range) => onChange({ follow: undefined, ...range })}
        zone={address.time ?? "utc"}
        onZone={(zone) => onZone(zone === "local" ? "local" : undefined)}
      />
      <Popover opened={isOpen} onChange={setIsOpen} trapFocus returnFocus position="bottom-start">
        <Popover.Target>
          <Button
            variant="default"
            leftSection={<Icon name="filter" />}
            aria-expanded={isOpen}
            onClick={() => setIsOpen(!isOpen)}
          >
            Filter
          </Button>
        </Popover.Target>
        <Popover.Dropdown>
          <FilterForm
            organizationId={organizationId}
            filter={{ action, person }}
            onSubmit={(filter) => {
              setIsOpen(false);
              onChange(filter);
            }}
          />
        </Popover.Dropdown>
      </Popover>
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

type Filter = Pick<LogAddress, "action" | "person">;

interface FilterFormProps {
  organizationId: string;
  filter: Filter;
  onSubmit: (filter: Filter) => void;
}

function FilterForm({ organizationId, filter, onSubmit }: FilterFormProps) {
  const { data = [], error } = useActions(organizationId);
  const [action, setAction] = useState(filter.action ?? "");
  const [person, setPerson] = useState(filter.person ?? "");
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
        description="Exactly as in the entries"
        placeholder="ada@example.com"
        inputMode="email"
        data-autofocus
        value={person}
        onChange={({ currentTarget: { value } }) => setPerson(value)}
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
        onChange={({ currentTarget: { value } }) => setAction(value)}
      />
      <Group justify="flex-end">
        <Button type="submit" size="compact-sm">Show</Button>
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
