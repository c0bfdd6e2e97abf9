import { NativeSelect, Stack, TextInput } from "@mantine/core";
import { useInputState } from "@mantine/hooks";
import { useState } from "react";
import { Connect } from "../connect/connect.tsx";
import { isDay, today } from "../shared/days.ts";
import { Hint } from "../shared/parts.tsx";
import { type ApiKey, isLive, useCreateKey } from "./data.ts";
import { FormDialog } from "./form_dialog.tsx";

const MAX_NAME_LENGTH = 100;
const MAX_YEARS = 5;

const LIFETIMES = [
  { value: "30", label: "In 30 days" },
  { value: "90", label: "In 90 days" },
  { value: "365", label: "In a year" },
  { value: "never", label: "Never" },
  { value: "day", label: "After a day …" },
];

/** Asks for a name and an end, then shows the token. `keys` are the organization's. */
export function CreateKey({ keys, onClose }: { keys: ApiKey[]; onClose: () => void }) {
  // The id stays, so that trying again after a lost answer cannot make a second key.
  const [id] = useState(() => crypto.randomUUID());
  const [name, setName] = useInputState("");
  const [lifetime, setLifetime] = useInputState("365");
  const [lastDay, setLastDay] = useState("");
  const [isSent, setIsSent] = useState(false);
  const creation = useCreateKey();
  const nameError = explainName(name);
  const dayError = lifetime === "day" ? explainLastDay(lastDay) : "";
  const namesake = keys.find((key) => isLive(key) && normalized(key.name) === normalized(name));
  if (creation.data) return <Connect apiKey={creation.data} onClose={onClose} />;
  return (
    <FormDialog
      title="Create an API key"
      action="Create key"
      work={creation}
      hasToken
      onSubmit={() => {
        setIsSent(true);
        if (nameError || dayError) return null;
        const end = lifetime === "never" ? {} : { expires_at: expiresAt(lifetime, lastDay) };
        return creation.mutateAsync({ api_key_id: id, name, ...end });
      }}
      onClose={onClose}
    >
      <Stack gap={4}>
        <TextInput
          label="Name"
          description="The application that gets it. It cannot be changed later."
          data-autofocus
          value={name}
          error={isSent && nameError}
          onChange={setName}
        />
        <div role="status">
          {namesake && !creation.isPending && (
            <Hint>
              A live key has this name already:{" "}
              <code>{namesake.hint}</code>. Another name tells them apart; to replace that key,
              rotate it.
            </Hint>
          )}
        </div>
      </Stack>
      <NativeSelect
        label="Expires"
        data={LIFETIMES}
        value={lifetime}
        onChange={setLifetime}
      />
      {lifetime === "day" && (
        <TextInput
          label="Last day (UTC)"
          placeholder="YYYY-MM-DD"
          maxLength={10}
          value={lastDay}
          error={isSent && dayError}
          onChange={({ currentTarget: { value } }) => setLastDay(value.trim())}
        />
      )}
    </FormDialog>
  );
}

function expiresAt(lifetime: string, lastDay: string): string {
  if (lifetime === "day") return `${lastDay}T24:00:00Z`;
  return new Date(Date.now() + Number(lifetime) * 24 * 60 * 60 * 1000).toISOString();
}

/** A name as it looks. Spaces in a row are shown as one, and an accent may be typed in two ways. */
export function normalized(name: string): string {
  return name.trim().replace(/\s+/g, " ").normalize("NFC");
}

/** Checks the two simplest rules. The database knows the others, and explains them. */
function explainName(name: string): string {
  const { length } = [...name.trim().normalize("NFC")];
  if (length === 0) return "A name is needed, not only spaces.";
  return length > MAX_NAME_LENGTH
    ? `At most ${MAX_NAME_LENGTH} characters; this has ${length}.`
    : "";
}

function explainLastDay(day: string): string {
  if (!isDay(day)) return "A day is YYYY-MM-DD";
  if (day < today()) return "That day is over";
  const [year, rest] = [Number(today().slice(0, 4)), today().slice(4)];
  return day < `${year + MAX_YEARS}${rest}` ? "" : `At most ${MAX_YEARS} years ahead`;
}
