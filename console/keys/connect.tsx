import { Alert, Anchor, Button, Checkbox, Group } from "@mantine/core";
import { useInputState, useWindowEvent } from "@mantine/hooks";
import type { ApiKey, NewApiKey } from "../data/api_keys.ts";
import { Copyable } from "../shared/copy.tsx";
import { dayOf, today } from "../shared/days.ts";
import { Dialog } from "../shared/dialog.tsx";
import { Hint, quoted } from "../shared/parts.tsx";
import { AUDIT_LOG_URL } from "../shared/transport.ts";
import { TOKEN } from "./key_form.tsx";

/** The shell asks for the token, because it keeps a history of commands. Others could see curl's arguments. */
function command(): string {
  return `read -rs TOKEN && printf 'Authorization: Bearer %s' "$TOKEN" | ` +
    `curl --header @- "${AUDIT_LOG_URL}?start=${today()}&end=${today()}"`;
}

/** Shows how to use a key, and a new key's token until a person says that it is stored. */
export function Connect(
  { apiKey, onClose }: { apiKey: NewApiKey | ApiKey; onClose: () => void },
) {
  const { name, hint } = apiKey;
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
      {token && (
        <>
          <Alert color="yellow" role="status">
            The token is shown only once. If you lose it, rotate or revoke the key{" "}
            <code>{hint}</code>.
          </Alert>
          <Copyable title="Token" text={token} />
        </>
      )}
      {"created_at" in apiKey && (
        <p>
          The token of <code>{hint}</code> was shown once, when{" "}
          <bdi>{apiKey.created_by_email ?? "a server"}</bdi> made the key on{" "}
          {dayOf(apiKey.created_at)}. If nobody has it, rotate the key.
        </p>
      )}
      <Copyable title="Command" text={command()} />
      <Hint>
        Run it in a shell, paste the token, and press Enter. It asks for today's entries.{" "}
        <Anchor href="./docs/integrating.html" target="_blank" inherit underline="always">
          Connect an application (new tab)
        </Anchor>
      </Hint>
      <Group justify="flex-end" gap="xs" wrap="nowrap">
        {token && (
          <Checkbox
            flex={1}
            label="I have stored the token where the application finds it"
            description={!isStored && "To close, tick the box."}
            checked={isStored}
            onChange={setIsStored}
          />
        )}
        <Button variant="filled" disabled={token !== null && !isStored} onClick={onClose}>
          Close
        </Button>
      </Group>
    </Dialog>
  );
}
