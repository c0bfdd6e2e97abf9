import { Alert, Button, Checkbox, Group, Loader, NativeSelect, Stack } from "@mantine/core";
import { useInputState, useWindowEvent } from "@mantine/hooks";
import { type ApiKey, type NewApiKey, useApiKeys } from "../data/api_keys.ts";
import { Copyable } from "../shared/copy.tsx";
import { formatRelative } from "../shared/days.ts";
import { Dialog } from "../shared/dialog.tsx";
import { Icon } from "../shared/icons.tsx";
import { Hint } from "../shared/parts.tsx";
import { AUDIT_LOG_URL } from "../shared/transport.ts";
import { COLLECTORS } from "./collectors.ts";
import { quoted, TOKEN } from "./key_form.tsx";

/** Shows how an application uses a key, and a new key's token until a person says that it is stored. */
export function TokenAndConnect(
  { apiKey, onClose }: { apiKey: NewApiKey | ApiKey; onClose: () => void },
) {
  const { id, name } = apiKey;
  const token = "token" in apiKey ? apiKey.token : null;
  const [isStored, setIsStored] = useInputState(false);
  const [chosen, setChosen] = useInputState("curl");
  const collector = COLLECTORS.find(({ name }) => name === chosen);
  // Otherwise the browser's Back would show the token again.
  useWindowEvent("pagehide", onClose);
  return (
    <Dialog
      title={token ? `Copy the token of ${quoted(name)} now` : `Connect ${quoted(name)}`}
      isBusy={token !== null}
      loss={TOKEN}
      onClose={onClose}
    >
      {token && (
        <>
          <Alert color="yellow" role="status">
            The token is shown only once. If you lose it, rotate or revoke the key{" "}
            <code>{apiKey.hint}</code>.
          </Alert>
          <Copyable title="Token" text={token} />
        </>
      )}
      <NativeSelect
        label="Connect"
        data={COLLECTORS.map(({ name }) => name)}
        value={chosen}
        onChange={setChosen}
      />
      {collector && (
        <Stack gap="xs">
          <Hint>{collector.hint}</Hint>
          <Copyable
            title={collector.name}
            text={`export AUDIT_LOG_URL=${AUDIT_LOG_URL}
export AUDIT_LOG_API_KEY=${token ?? apiKey.hint}
${collector.command}`}
          />
        </Stack>
      )}
      <FirstRequest apiKeyId={id} />
      {/* In sight on a phone, too, where the dialog is longer than the screen. */}
      <Stack pos="sticky" bottom={0} py="sm" gap="xs" bg="var(--mantine-color-body)">
        {token && (
          <Checkbox
            label="I have stored the token where the application finds it"
            checked={isStored}
            onChange={setIsStored}
          />
        )}
        <Group justify="flex-end" gap="xs">
          {token && !isStored && <Hint>To close, tick the box.</Hint>}
          <Button variant="filled" disabled={token !== null && !isStored} onClick={onClose}>
            Close
          </Button>
        </Group>
      </Stack>
    </Dialog>
  );
}

function FirstRequest({ apiKeyId }: { apiKeyId: string }) {
  const { data } = useApiKeys();
  const usedAt = data?.find(({ id }) => id === apiKeyId)?.last_used_at;
  return (
    <Alert
      color={usedAt ? "green" : "gray"}
      role="status"
      p="xs"
      icon={usedAt ? <Icon name="check" /> : <Loader size={14} color="dimmed" aria-hidden />}
    >
      {usedAt
        ? `Connected: last request ${formatRelative(usedAt)}`
        : "Waiting for the first request …"}
    </Alert>
  );
}
