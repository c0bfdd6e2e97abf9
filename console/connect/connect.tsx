import { Alert, Button, Checkbox, Group, Loader, NativeSelect, Stack } from "@mantine/core";
import { useInputState } from "@mantine/hooks";
import { useEffect, useState } from "react";
import { type ApiKey, type NewApiKey, useApiKeys } from "../keys/data.ts";
import { KeyDialog, quoted } from "../keys/form_dialog.tsx";
import { Copyable } from "../shared/copy.tsx";
import { formatRelative } from "../shared/days.ts";
import { Icon } from "../shared/icons.tsx";
import { Hint } from "../shared/parts.tsx";
import { AUDIT_LOG_URL } from "../shared/transport.ts";
import { COLLECTORS } from "./collectors.ts";

const POLL_MS = 3_000;

export interface ConnectProps {
  /** A new key comes with its token, once, and only here. */
  apiKey: NewApiKey | ApiKey;
  onClose: () => void;
}

/** How an application uses a key. While it shows the token, only the confirmed button closes it. */
export function Connect({ apiKey, onClose }: ConnectProps) {
  const { id, name } = apiKey;
  const token = "token" in apiKey ? apiKey.token : null;
  const [isStored, setIsStored] = useState(false);
  const [chosen, setChosen] = useInputState("curl");
  const collector = COLLECTORS.find(({ name }) => name === chosen) ?? COLLECTORS[0];
  // Otherwise the browser's Back would show the token again.
  useEffect(() => {
    addEventListener("pagehide", onClose);
    return () => removeEventListener("pagehide", onClose);
  }, [onClose]);
  return (
    <KeyDialog
      title={token ? `Copy the token of ${quoted(name)} now` : `Connect ${quoted(name)}`}
      isBusy={token !== null}
      hasToken
      onClose={onClose}
    >
      {token && (
        <>
          <Alert color="yellow" role="status">
            It is shown only once. If it is lost, revoke the key and create another.
          </Alert>
          <Copyable title="Token" label="token" text={token} />
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
          <Hint>{collector.instructions}</Hint>
          <Copyable
            title={collector.name}
            label={collector.name}
            text={collector.text(AUDIT_LOG_URL, token ?? apiKey.hint)}
          />
        </Stack>
      )}
      <FirstRequest apiKeyId={id} />
      {token && (
        <Checkbox
          label="I have stored the token where the application finds it"
          checked={isStored}
          onChange={({ currentTarget: { checked } }) => setIsStored(checked)}
        />
      )}
      <Group justify="flex-end">
        <Button variant="filled" disabled={token !== null && !isStored} onClick={onClose}>
          Close
        </Button>
      </Group>
    </KeyDialog>
  );
}

/** Says when the application has made its first request with a key. */
function FirstRequest({ apiKeyId }: { apiKeyId: string }) {
  const { data } = useApiKeys(POLL_MS);
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
