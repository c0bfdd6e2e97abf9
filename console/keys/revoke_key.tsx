import { Alert, TextInput } from "@mantine/core";
import { useInputState } from "@mantine/hooks";
import * as z from "zod/mini";
import { type ApiKey, useApiKeys, useKeyChange } from "../data/api_keys.ts";
import { formatRelative } from "../shared/days.ts";
import { notify } from "../shared/notice.tsx";
import { quoted } from "../shared/parts.tsx";
import { KeyForm } from "./key_form.tsx";

export function RevokeKey({ apiKey, onClose }: { apiKey: ApiKey; onClose: () => void }) {
  const { id, name, hint, last_used_at } = apiKey;
  const [typed, setTyped] = useInputState("");
  // Its name would not tell a key from its successor.
  const end = hint.slice(-4);
  const revocation = useKeyChange("revoke_api_key", z.unknown());
  const onSuccess = () => {
    notify(`${quoted(name)} ${hint} is revoked. Every request with it is rejected.`);
    onClose();
  };
  return (
    <KeyForm
      title={`Revoke ${quoted(name)} ${hint}?`}
      action="Revoke key"
      makesKey={false}
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
      <Successor apiKey={apiKey} />
      <TextInput
        label={`Type the last four characters of its hint to confirm: ${end}`}
        data-autofocus
        value={typed}
        onChange={setTyped}
      />
    </KeyForm>
  );
}

/** Says whether the application has the new key yet. */
function Successor({ apiKey: { successor_id } }: { apiKey: ApiKey }) {
  const successor = useApiKeys().data?.find(({ id }) => id === successor_id);
  if (!successor) return null;
  const { hint, last_used_at, revoked_at } = successor;
  const use = revoked_at
    ? "is revoked, too: data will stop"
    : last_used_at
    ? `was last used ${formatRelative(last_used_at)}`
    : "has never been used: data will stop";
  return (
    <p>
      It was rotated. The new key <code>{hint}</code> {use}.
    </p>
  );
}
