import { Alert, TextInput } from "@mantine/core";
import { useInputState } from "@mantine/hooks";
import { useEffect } from "react";
import * as z from "zod/mini";
import { type ApiKey, useApiKeys, useKeyChange } from "../data/api_keys.ts";
import { useUsage } from "../data/log_usage.ts";
import { count, formatRelative, lastDays, today } from "../shared/days.ts";
import { quoted } from "../shared/parts.tsx";
import { KeyForm } from "./key_form.tsx";

export interface RevokeKeyProps {
  apiKey: ApiKey;
  /** Takes what to tell the person. */
  onDone: (news: string) => void;
  onClose: () => void;
}

export function RevokeKey({ apiKey, onDone, onClose }: RevokeKeyProps) {
  const { id, name, hint } = apiKey;
  const [typed, setTyped] = useInputState("");
  // Its name would not tell a key from its successor.
  const end = hint.slice(-4);
  const revocation = useKeyChange("revoke_api_key", z.unknown());
  const news = `${quoted(name)} (${hint}) is revoked. Every request with it now gets 401.`;
  return (
    <KeyForm
      title={`Revoke ${quoted(name)} ${hint}?`}
      action="Revoke key"
      makesKey={false}
      work={revocation}
      isDisabled={typed.trim() !== end}
      onSubmit={() => revocation.mutate({ api_key_id: id }, { onSuccess: () => onDone(news) })}
      onClose={onClose}
    >
      <LastUse apiKey={apiKey} />
      <p>
        As soon as you press “Revoke key”, every request with <code>{hint}</code>{" "}
        gets 401, and every application with this key stops working. This cannot be undone.
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

/** Says who would miss a key. */
function LastUse({ apiKey: { id, last_used_at } }: { apiKey: ApiKey }) {
  const { data, refetch } = useUsage(lastDays(30));
  // "0 requests today" of a minute ago would mislead.
  useEffect(() => void refetch(), []);
  if (!last_used_at) return <Alert color="gray">This key has never been used.</Alert>;
  const usage = data?.filter(({ api_key_id }) => api_key_id === id);
  const requests = usage?.find(({ day }) => day === today())?.requests ?? 0;
  const ip = usage?.findLast(({ last_address }) => last_address)?.last_address;
  const known = [
    `Last used ${formatRelative(last_used_at)}`,
    usage && `${count(requests, "request")} today`,
    ip && `last from ${ip}`,
  ];
  return <Alert color="yellow">{known.filter(Boolean).join(", ")}.</Alert>;
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
