import { Alert, TextInput } from "@mantine/core";
import { useInputState } from "@mantine/hooks";
import * as z from "zod/mini";
import { type ApiKey, useKeyChange } from "../data/api_keys.ts";
import type { Usage } from "../data/log_usage.ts";
import { count, formatRelative, today } from "../shared/days.ts";
import { quoted } from "../shared/parts.tsx";
import { KeyForm } from "./key_form.tsx";

export interface RevokeKeyProps {
  apiKey: ApiKey;
  /** Undefined when it could not be read. */
  usage: Usage[] | undefined;
  onRevoked: () => void;
  onClose: () => void;
}

export function RevokeKey({ apiKey, usage, onRevoked, onClose }: RevokeKeyProps) {
  const [typed, setTyped] = useInputState("");
  // Its name would not tell a key from its successor.
  const end = apiKey.hint.slice(-4);
  const revocation = useKeyChange("revoke_api_key", z.unknown());
  return (
    <KeyForm
      title={`Revoke ${quoted(apiKey.name)} ${apiKey.hint}?`}
      action="Revoke key"
      makesKey={false}
      work={revocation}
      isDisabled={typed.trim() !== end}
      onSubmit={() => revocation.mutate({ api_key_id: apiKey.id }, { onSuccess: onRevoked })}
      onClose={onClose}
    >
      <Alert color={apiKey.last_used_at ? "yellow" : "gray"}>{explainUsage(apiKey, usage)}</Alert>
      <p>
        As soon as you press “Revoke key”, every request with <code>{apiKey.hint}</code>{" "}
        gets 401. This cannot be undone.{apiKey.successor_id &&
          " It was rotated: the new key goes on working."}
      </p>
      <TextInput
        label={`Type the last four characters of its hint to confirm: ${end}`}
        data-autofocus
        value={typed}
        onChange={setTyped}
      />
    </KeyForm>
  );
}

function explainUsage({ last_used_at }: ApiKey, usage: Usage[] | undefined): string {
  if (!last_used_at) return "This key has never been used.";
  const requests = usage?.find(({ day }) => day === today())?.requests ?? 0;
  const ip = usage?.findLast(({ last_address }) => last_address)?.last_address;
  const known = [
    `Last used ${formatRelative(last_used_at)}`,
    usage && `${count(requests, "request")} today`,
    ip && `last from ${ip}`,
  ];
  return `${known.filter(Boolean).join(", ")}. Every application with this key stops working.`;
}
