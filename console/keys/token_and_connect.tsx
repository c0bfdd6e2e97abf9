import { Alert, Button, Checkbox, Group, Stack } from "@mantine/core";
import { useInputState, useWindowEvent } from "@mantine/hooks";
import type { ApiKey, NewApiKey } from "../data/api_keys.ts";
import { Copyable } from "../shared/copy.tsx";
import { Dialog } from "../shared/dialog.tsx";
import { Hint, quoted } from "../shared/parts.tsx";
import { Connect } from "./connect.tsx";
import { TOKEN } from "./key_form.tsx";
import { Reading } from "./reading.tsx";

/** Shows how an application uses a key, and a new key's token until a person says that it is stored. */
export function TokenAndConnect(
  { apiKey, onClose }: { apiKey: NewApiKey | ApiKey; onClose: () => void },
) {
  const { id, name } = apiKey;
  const token = "token" in apiKey ? apiKey.token : null;
  const [isStored, setIsStored] = useInputState(false);
  // Otherwise the browser's Back would show the token again.
  useWindowEvent("pagehide", onClose);
  return (
    <Dialog
      title={token ? `Copy the token of ${quoted(name)} now` : `Connect ${quoted(name)}`}
      isBusy={token !== null}
      loss={TOKEN}
      onClose={onClose}
    >
      {token
        ? (
          <>
            <Alert color="yellow" role="status">
              The token is shown only once. If you lose it, rotate or revoke the key{" "}
              <code>{apiKey.hint}</code>.
            </Alert>
            <Copyable title="Token" text={token} />
          </>
        )
        : (
          <p>
            The token of <code>{apiKey.hint}</code>{" "}
            was shown once, when the key was made. It is where somebody stored it then. If nobody
            has it, rotate the key.
          </p>
        )}
      <Connect />
      <Reading apiKeyId={id} />
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
