import { NativeSelect, TextInput } from "@mantine/core";
import { useInputState } from "@mantine/hooks";
import { useState } from "react";
import { NEW_API_KEY, useKeyChange } from "../data/api_keys.ts";
import { DAY_MS, now } from "../shared/days.ts";
import { KeyForm } from "./key_form.tsx";
import { TokenAndConnect } from "./token_and_connect.tsx";

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
  if (creation.data) return <TokenAndConnect apiKey={creation.data} onClose={onClose} />;
  return (
    <KeyForm
      title="Create an API key"
      action="Create key"
      makesKey
      work={creation}
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
      />
      <NativeSelect label="Expires" data={LIFETIMES} value={days} onChange={setDays} />
    </KeyForm>
  );
}
