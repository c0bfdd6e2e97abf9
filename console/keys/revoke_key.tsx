import { Alert, TextInput } from "@mantine/core";
import { useInputState } from "@mantine/hooks";
import { type ApiKey, useApiKeys, useRevocation } from "../data/api_keys.ts";
import { formatRelative } from "../shared/days.ts";
import { FormDialog } from "../shared/form_dialog.tsx";
import { notify } from "../shared/notice.tsx";
import { quoted } from "../shared/parts.tsx";

export function RevokeKey({ apiKey, onClose }: { apiKey: ApiKey; onClose: () => void }) {
  const { id, name, hint, last_used_at } = apiKey;
  const [typed, setTyped] = useInputState("");
  // Its name would not tell a key from its successor.
  const end = hint.slice(-4);
  const revocation = useRevocation();
  const successor = useApiKeys().data?.find(({ id }) => id === apiKey.successor_id);
  const onSuccess = () => {
    notify(`${quoted(name)} ${hint} is revoked. Every request with it is rejected.`);
    onClose();
  };
  return (
    <FormDialog
      title={`Revoke ${quoted(name)} ${hint}?`}
      action="Revoke key"
      colour="red"
      work={revocation}
      isDisabled={typed.trim() !== end}
      onSubmit={() => revocation.mutate({ api_key_id: id }, { onSuccess })}
      onClose={onClose}
    >
      <Alert color={last_used_at ? "yellow" : "gray"}>
        {last_used_at
          ? `Last used ${formatRelative(last_used_at)}.`
          : "This key has never been used."}
      </Alert>
      <p>
        As soon as you press “Revoke key”, every request with <code>{hint}</code>{" "}
        is rejected, and every application with this key stops working. This cannot be undone.
      </p>
      {successor && (
        <p>
          It was rotated. The new key <code>{successor.hint}</code> {usageOf(successor)}.
        </p>
      )}
      <TextInput
        label={`Type the last four characters of the key to confirm: ${end}`}
        data-autofocus
        value={typed}
        onChange={setTyped}
      />
    </FormDialog>
  );
}

function usageOf({ last_used_at, revoked_at }: ApiKey): string {
  if (revoked_at) return "is revoked, too: data will stop";
  if (!last_used_at) return "has never been used: data will stop";
  return `was last used ${formatRelative(last_used_at)}`;
}
