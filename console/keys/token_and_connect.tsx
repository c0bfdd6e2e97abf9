import { Alert, Button, Checkbox, Group, Stack } from "@mantine/core";
import { useInputState, useWindowEvent } from "@mantine/hooks";
import { type ApiKey, type NewApiKey, useApiKeys } from "../data/api_keys.ts";
import { Copyable } from "../shared/copy.tsx";
import { dayOf, formatRelative, formatTime } from "../shared/days.ts";
import { Dialog } from "../shared/dialog.tsx";
import { quoted } from "../shared/parts.tsx";
import { Connect } from "./connect.tsx";
import { TOKEN } from "./key_form.tsx";
import { predecessorOf } from "./key_state.tsx";
import styles from "./keys.module.css";
import { ReadingNews } from "./reading_news.tsx";

/** Shows how an application uses a key, and a new key's token until a person says that it is stored. */
export function TokenAndConnect(
  { apiKey, onClose }: { apiKey: NewApiKey | ApiKey; onClose: () => void },
) {
  const { id, name, hint } = apiKey;
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
              <code>{hint}</code>.
            </Alert>
            <Copyable title="Token" text={token} />
          </>
        )
        : "created_at" in apiKey && (
          <p>
            The token of <code>{hint}</code> was shown once, when{" "}
            <bdi>{apiKey.created_by_email ?? "a server"}</bdi> made the key on{" "}
            {dayOf(apiKey.created_at)}. It is where somebody stored it then. If nobody has it,
            rotate the key.
          </p>
        )}
      <Predecessor id={id} />
      <Connect />
      <Stack className={styles.footer ?? ""} py="sm" gap="xs">
        <ReadingNews apiKeyId={id} />
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
      </Stack>
    </Dialog>
  );
}

/** Says until when the key that this one replaces works, and when it may be revoked. */
function Predecessor({ id }: { id: string }) {
  const { data: all = [] } = useApiKeys();
  const old = predecessorOf(id, all);
  if (!old?.expires_at) return null;
  const usedAt = all.find((key) => key.id === id)?.last_used_at;
  return (
    <p role="status">
      The old key <code>{old.hint}</code> works until {formatTime(old.expires_at).slice(0, 16)}{" "}
      UTC ({formatRelative(old.expires_at)}). {usedAt
        // Whoever tries the new key by hand has not moved the application.
        ? `The new key was used ${formatRelative(usedAt)}, the old one ${
          old.last_used_at ? formatRelative(old.last_used_at) : "never"
        }. When the old one is silent, you may revoke it.`
        : "When the new key shows a last use, you may revoke the old one."}
    </p>
  );
}
