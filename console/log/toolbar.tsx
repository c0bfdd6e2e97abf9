import { Button, Group, Menu } from "@mantine/core";
import { ActionName, actionName } from "../shared/action.tsx";
import { Icon } from "../shared/icons.tsx";
import { RangePicker } from "../shared/range.tsx";
import type { LogAddress } from "./address.ts";
import { ACTIONS } from "./data.ts";

export interface ToolbarProps {
  address: LogAddress;
  onChange: (changes: Partial<LogAddress>) => void;
  onZone: (time: LogAddress["time"]) => void;
}

/** Which entries are shown: days and time zone in one control, and filters that can be taken off. */
export function Toolbar({ address, onChange, onZone }: ToolbarProps) {
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
          {ACTIONS.map((action) => (
            <Menu.Item key={action} onClick={() => onChange({ action })}>
              <ActionName code={action} />
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
