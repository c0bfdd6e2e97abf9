import { Alert, Button, Group } from "@mantine/core";
import type { ApiKey } from "../data/api_keys.ts";
import { formatRelative, formatTime } from "../shared/days.ts";
import { unusedSuccessorOf } from "./key_state.tsx";

interface StoppingKeysProps {
  all: ApiKey[];
  onConnect: (successor: ApiKey) => void;
}

/** Warns of keys that were rotated, and whose applications never got the new token. */
export function StoppingKeys({ all, onConnect }: StoppingKeysProps) {
  return all.map((apiKey) => {
    const successor = unusedSuccessorOf(apiKey, all);
    const { id, name, hint, expires_at } = apiKey;
    if (!successor || !expires_at) return null;
    const isOver = apiKey.state === "expired";
    return (
      <Alert key={id} color="red" role="alert">
        <Group justify="space-between" gap="xs">
          <span style={{ flex: "1 1 240px" }}>
            “<bdi>{name}</bdi>” <code>{hint}</code> {isOver ? "expired" : "expires"}{" "}
            {formatRelative(expires_at)}, at {formatTime(expires_at).slice(0, 16)}{" "}
            UTC. Its successor <code>{successor.hint}</code> has never been used: data{" "}
            {isOver ? "has stopped" : "will stop"}.
          </span>
          <Button size="compact-sm" onClick={() => onConnect(successor)}>
            Connect the successor
          </Button>
        </Group>
      </Alert>
    );
  });
}
