import { Alert, Anchor, Button, Group, Stack } from "@mantine/core";
import { useWindowEvent } from "@mantine/hooks";
import type { NewApiKey } from "../data/api_keys.ts";
import { Copyable } from "../shared/copy.tsx";
import { today } from "../shared/days.ts";
import { Dialog } from "../shared/dialog.tsx";
import { Hint, quoted } from "../shared/parts.tsx";
import { AUDIT_LOG_URL } from "../shared/transport.ts";

/** What is lost when a person leaves a dialog that has a token, or waits for one. */
export const TOKEN = "the token";

/** The shell asks for the token, because it keeps a history of commands. Others could see curl's arguments. */
function command(): string {
  return `read -rs TOKEN && printf 'Authorization: Bearer %s' "$TOKEN" | ` +
    `curl --header @- "${AUDIT_LOG_URL}?start=${today()}&end=${today()}"`;
}

export function TryKey() {
  return (
    <Stack gap={4}>
      <Copyable title="Try a key" text={command()} />
      <Hint>
        Run it in a shell. It waits for the token: paste it, and press Enter. You get today's
        entries.{" "}
        <Anchor href="./docs/integrating.html" target="_blank" inherit underline="always">
          Connect an application (new tab)
        </Anchor>
      </Hint>
    </Stack>
  );
}

export function Token({ apiKey, onClose }: { apiKey: NewApiKey; onClose: () => void }) {
  const { name, hint, token } = apiKey;
  // Otherwise the browser's Back would show the token again.
  useWindowEvent("pagehide", onClose);
  return (
    <Dialog title={`Copy the token of ${quoted(name)} now`} isBusy loss={TOKEN} onClose={onClose}>
      <Alert color="yellow" role="status">
        The token is shown only once. If you lose it, rotate or revoke the key <code>{hint}</code>.
      </Alert>
      <Copyable title="Token" text={token} />
      <TryKey />
      <Group justify="flex-end">
        <Button variant="filled" onClick={onClose}>I have stored the token</Button>
      </Group>
    </Dialog>
  );
}
