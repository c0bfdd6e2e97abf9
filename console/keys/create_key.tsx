import { NativeSelect, TextInput } from "@mantine/core";
import { useInputState } from "@mantine/hooks";
import { useState } from "react";
import { NEW_API_KEY, useKeyChange } from "../data/api_keys.ts";
import { DAY_MS, now } from "../shared/days.ts";
import { RequestError } from "../shared/transport.ts";
import { KeyForm } from "./key_form.tsx";
import { Token } from "./token.tsx";

const LIFETIMES = [
  { value: "30", label: "In 30 days" },
  { value: "90", label: "In 90 days" },
  { value: "365", label: "In a year" },
  { value: "", label: "Never" },
];

/** Asks for a name and an end, then shows the token. */
export function CreateKey({ onClose }: { onClose: () => void }) {
  // The id stays, so that trying again after a lost answer cannot make a second key.
  const [id] = useState(() => crypto.randomUUID());
  const [name, setName] = useInputState("");
  const [days, setDays] = useInputState("365");
  const creation = useKeyChange("create_api_key", NEW_API_KEY);
  const { error, isPending } = creation;
  // Nothing else that this form sends can be refused with this code.
  const refusal = error instanceof RequestError && error.code === "22023" ? error : null;
  if (creation.data) return <Token apiKey={creation.data} onClose={onClose} />;
  return (
    <KeyForm
      title="Create an API key"
      action="Create key"
      makesKey
      work={{ error: refusal ? null : error, isPending }}
      onSubmit={() => {
        const end = new Date(now() + Number(days) * DAY_MS);
        creation.mutate({ api_key_id: id, name, ...days && { expires_at: end.toISOString() } });
      }}
      onClose={onClose}
    >
      <TextInput
        label="Name"
        description="Name the application that gets the key. You cannot change the name later."
        data-autofocus
        value={name}
        onChange={setName}
        required
        maxLength={100}
        error={refusal?.message}
      />
      <NativeSelect label="Expires" data={LIFETIMES} value={days} onChange={setDays} />
    </KeyForm>
  );
}
