import { Alert, TextInput } from "@mantine/core";
import { useInputState } from "@mantine/hooks";
import * as z from "zod/mini";
import { type ApiKey, isLive, useKeyChange } from "../data/api_keys.ts";
import type { Usage } from "../data/log_usage.ts";
import { count, formatRelative, today } from "../shared/days.ts";
import { isolated, KeyForm, quoted } from "./key_form.tsx";

export interface RevokeKeyProps {
  apiKey: ApiKey;
  /** The organization's. */
  keys: ApiKey[];
  /** Undefined when it could not be read. */
  usage: Usage[] | undefined;
  onRevoked: () => void;
  onClose: () => void;
}

export function RevokeKey({ apiKey, keys, usage, onRevoked, onClose }: RevokeKeyProps) {
  const [typed, setTyped] = useInputState("");
  // After a rotation, the name does not tell which of the two keys ends.
  const isNameShared = keys.some((key) =>
    key.id !== apiKey.id && isLive(key) && normalized(key.name) === normalized(apiKey.name)
  );
  const isConfirmed = isNameShared
    ? letters(typed) === letters(apiKey.hint)
    : normalized(typed) === normalized(apiKey.name);
  const revocation = useKeyChange("revoke_api_key", z.unknown());
  return (
    <KeyForm
      title={`Revoke ${quoted(apiKey.name)} ${apiKey.hint}?`}
      action="Revoke key"
      makesKey={false}
      work={revocation}
      isDisabled={!isConfirmed}
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
        label={isNameShared
          ? `Another key has this name. Type its hint to confirm: ${apiKey.hint}`
          : `Type its name to confirm: ${isolated(apiKey.name)}`}
        data-autofocus
        value={typed}
        onChange={setTyped}
      />
    </KeyForm>
  );
}

/** Makes names that look alike equal. Spaces in a row look like one, and an accent may be typed in two ways. */
function normalized(name: string): string {
  return name.trim().replace(/\s+/g, " ").normalize("NFC");
}

/** A hint without its dots, which no keyboard has. */
function letters(hint: string): string {
  return hint.replace(/[^\w]/g, "");
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
