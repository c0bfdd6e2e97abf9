import { NativeSelect, TextInput } from "@mantine/core";
import { useInputState } from "@mantine/hooks";
import { useState } from "react";
import { useNewKey } from "../data/api_keys.ts";
import { DAY_MS, now } from "../shared/days.ts";
import { FormDialog } from "../shared/form_dialog.tsx";
import { RequestError } from "../shared/transport.ts";
import { TOKEN, Token } from "./token.tsx";

const LIFETIMES = [
  { value: "30", label: "In 30 days" },
  { value: "90", label: "In 90 days" },
  { value: "365", label: "In a year" },
  { value: "", label: "Never" },
];

export function CreateKey({ onClose }: { onClose: () => void }) {
  // The id stays, so that trying again after a lost answer cannot make a second key.
  const [id] = useState(() => crypto.randomUUID());
  const [name, setName] = useInputState("");
  const [days, setDays] = useInputState("365");
  const creation = useNewKey("create_api_key");
  const { error, isPending } = creation;
  // Nothing else that this form sends can be refused with this code.
  const refusal = error instanceof RequestError && error.code === "22023" ? error : null;
  if (creation.data) return <Token apiKey={creation.data} onClose={onClose} />;
  return (
    <FormDialog
      title="Create an API key"
      action="Create key"
      loss={TOKEN}
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
    </FormDialog>
  );
}
