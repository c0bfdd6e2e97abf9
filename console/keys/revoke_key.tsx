import { Alert, TextInput } from "@mantine/core";
import { useInputState } from "@mantine/hooks";
import * as z from "zod/mini";
import type { Reads } from "../access/data.ts";
import { count, formatRelative, today } from "../shared/days.ts";
import { FormDialog, isolated, quoted } from "../shared/dialog.tsx";
import { normalized } from "./create_key.tsx";
import { type ApiKey, useKeyChange } from "./data.ts";

export interface RevokeKeyProps {
  apiKey: ApiKey;
  /** Undefined when they could not be read. */
  reads: Reads[] | undefined;
  onRevoked: () => void;
  onClose: () => void;
}

/** Says what revoking will break, and asks for the key's name. */
export function RevokeKey({ apiKey, reads, onRevoked, onClose }: RevokeKeyProps) {
  const [typed, setTyped] = useInputState("");
  const revocation = useKeyChange("revoke_api_key", z.unknown());
  return (
    <FormDialog
      title={`Revoke ${quoted(apiKey.name)} ${apiKey.hint}?`}
      action="Revoke key"
      color="red"
      work={revocation}
      isDisabled={normalized(typed) !== normalized(apiKey.name)}
      onSubmit={() => revocation.mutate({ api_key_id: apiKey.id }, { onSuccess: onRevoked })}
      onClose={onClose}
    >
      <Alert color={apiKey.last_used_at ? "yellow" : "gray"}>{explainUsage(apiKey, reads)}</Alert>
      <p>
        As soon as you press “Revoke key”, every request with <code>{apiKey.hint}</code>{" "}
        gets 401. This cannot be undone.{apiKey.successor_id &&
          " It was rotated: the new key goes on working."}
      </p>
      <TextInput
        label={`Type its name to confirm: ${isolated(apiKey.name)}`}
        data-autofocus
        value={typed}
        onChange={setTyped}
      />
    </FormDialog>
  );
}

function explainUsage({ last_used_at }: ApiKey, reads: Reads[] | undefined): string {
  if (!last_used_at) return "This key has never been used.";
  const requests = reads?.find(({ day }) => day === today())?.requests ?? 0;
  const address = reads?.findLast(({ last_address }) => last_address)?.last_address;
  const known = [
    `Last used ${formatRelative(last_used_at)}`,
    reads && `${count(requests, "request")} today`,
    address && `last from ${address}`,
  ];
  return `${known.filter(Boolean).join(", ")}. Every application with this key stops working.`;
}
