import { NativeSelect, Stack, TextInput } from "@mantine/core";
import { useInputState } from "@mantine/hooks";
import { useState } from "react";
import { type ApiKey, isLive, NEW_API_KEY, useKeyChange } from "../data/api_keys.ts";
import { addDays, DAY_MS, now, today } from "../shared/days.ts";
import { Hint } from "../shared/parts.tsx";
import { KeyForm, normalized } from "./key_form.tsx";
import { TokenAndConnect } from "./token_and_connect.tsx";

const MAX_DAYS = 5 * 365;

const LIFETIMES = [
  { value: "30", label: "In 30 days" },
  { value: "90", label: "In 90 days" },
  { value: "365", label: "In a year" },
  { value: "never", label: "Never" },
  { value: "day", label: "After a chosen day …" },
];

/** Asks for a name and an end, then shows the token. `keys` are the organization's. */
export function CreateKey({ keys, onClose }: { keys: ApiKey[]; onClose: () => void }) {
  // The id stays, so that trying again after a lost answer cannot make a second key.
  const [id] = useState(() => crypto.randomUUID());
  const [name, setName] = useInputState("");
  const [lifetime, setLifetime] = useInputState("365");
  const [lastDay, setLastDay] = useInputState("");
  const creation = useKeyChange("create_api_key", NEW_API_KEY);
  const namesake = keys.find((key) => isLive(key) && normalized(key.name) === normalized(name));
  if (creation.data) return <TokenAndConnect apiKey={creation.data} onClose={onClose} />;
  return (
    <KeyForm
      title="Create an API key"
      action="Create key"
      makesKey
      work={creation}
      onSubmit={() => {
        const end = lifetime === "never" ? {} : { expires_at: expiresAt(lifetime, lastDay) };
        creation.mutate({ api_key_id: id, name, ...end });
      }}
      onClose={onClose}
    >
      <Stack gap={4}>
        <TextInput
          label="Name"
          description="Name the application that gets the key. You cannot change the name later."
          data-autofocus
          value={name}
          onChange={setName}
        />
        <div role="status">
          {namesake && !creation.isPending && (
            <Hint>
              A working key has this name already:{" "}
              <code>{namesake.hint}</code>. Choose another name to tell them apart. To replace that
              key, rotate it.
            </Hint>
          )}
        </div>
      </Stack>
      <NativeSelect label="Expires" data={LIFETIMES} value={lifetime} onChange={setLifetime} />
      {lifetime === "day" && (
        <TextInput
          type="date"
          label="Last day (UTC)"
          required
          min={today()}
          max={addDays(today(), MAX_DAYS)}
          value={lastDay}
          onChange={setLastDay}
        />
      )}
    </KeyForm>
  );
}

function expiresAt(lifetime: string, lastDay: string): string {
  if (lifetime === "day") return `${lastDay}T24:00:00Z`;
  return new Date(now() + Number(lifetime) * DAY_MS).toISOString();
}
