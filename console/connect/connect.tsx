import { Alert, Button, Checkbox, Group, NativeSelect, Stack } from "@mantine/core";
import { useEffect, useState } from "react";
import type { ApiKey, NewApiKey } from "../keys/data.ts";
import { KeyDialog, quoted, TOKEN_LOST } from "../keys/form_dialog.tsx";
import { Copyable } from "../shared/copy.tsx";
import { Hint } from "../shared/parts.tsx";
import { AUDIT_LOG_URL } from "../shared/transport.ts";
import { COLLECTORS } from "./collectors.ts";
import { FirstRequest } from "./first_request.tsx";

export interface ConnectProps {
  /** With its token right after it was made: once, and only here. */
  apiKey: NewApiKey | ApiKey;
  onClose: () => void;
}

/** How an application uses a key. Nothing but the confirmed button closes it while it shows the token. */
export function Connect({ apiKey, onClose }: ConnectProps) {
  const token = "token" in apiKey ? apiKey.token : null;
  const [isStored, setIsStored] = useState(false);
  const [chosen, setChosen] = useState("curl");
  const collector = COLLECTORS.find(({ id }) => id === chosen) ?? COLLECTORS[0];
  // The browser's Back would show the page as it was left.
  useEffect(() => {
    addEventListener("pagehide", onClose);
    return () => removeEventListener("pagehide", onClose);
  }, [onClose]);
  return (
    <KeyDialog
      title={token
        ? `Copy the token of ${quoted(apiKey.name)} now`
        : `Connect ${quoted(apiKey.name)}`}
      isBusy={token !== null}
      warning={TOKEN_LOST}
      onClose={onClose}
    >
      {token && (
        <>
          <Alert color="yellow" role="status">
            It is shown this once. If it is lost, revoke the key and create another.
          </Alert>
          <Copyable title="Token" label="token" text={token} />
        </>
      )}
      <NativeSelect
        label="Connect"
        data={COLLECTORS.map(({ id, name }) => ({ value: id, label: name }))}
        value={chosen}
        onChange={({ currentTarget: { value } }) => setChosen(value)}
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
      <FirstRequest apiKeyId={apiKey.id} />
      {token && (
        <Checkbox
          label="I have stored the token where the application finds it"
          checked={isStored}
          onChange={({ currentTarget: { checked } }) => setIsStored(checked)}
        />
      )}
      <Group justify="flex-end">
        <Button disabled={token !== null && !isStored} onClick={onClose}>Close</Button>
      </Group>
    </KeyDialog>
  );
}
