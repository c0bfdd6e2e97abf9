import { Button, Group, Menu } from "@mantine/core";
import { ActionName, actionName } from "../shared/action.tsx";
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
  const actions = useActions(organizationId);
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
      <Menu position="bottom-start">
        <Menu.Target>
          <Button variant="default" leftSection={<Icon name="filter" />}>Filter</Button>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Label>Action</Menu.Label>
          {actions.data?.map(({ code }) => (
            <Menu.Item
              key={code}
              onClick={() => onChange({ action: code })}
            >
              <ActionName code={code} />
            </Menu.Item>
          ))}
        </Menu.Dropdown>
      </Menu>
      {address.action && (
        <Chip
          text={`Action: ${actionName(address.action)}`}
          onRemove={() => onChange({ action: undefined })}
        />
      )}
      {address.person && (
        <Chip
          text={`Person: ${address.person}`}
          onRemove={() => onChange({ person: undefined })}
        />
      )}
    </Group>
  );
}

function Chip({ text, onRemove }: { text: string; onRemove: () => void }) {
  return (
    <Button
      variant="light"
      rightSection={<Icon name="close" size={12} />}
      aria-label={`${text}, remove this filter`}
      onClick={onRemove}
    >
      {text}
    </Button>
  );
}
