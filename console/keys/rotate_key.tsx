import { NativeSelect } from "@mantine/core";
import { useInputState } from "@mantine/hooks";
import { useState } from "react";
import { type ApiKey, NEW_API_KEY, useKeyChange } from "../data/api_keys.ts";
import { quoted } from "../shared/parts.tsx";
import { KeyForm } from "./key_form.tsx";
import { TokenAndConnect } from "./token_and_connect.tsx";

const OVERLAPS = ["0", "1 hour", "24 hours", "7 days", "30 days", "90 days"]
  .map((value) => ({ value, label: value === "0" ? "At once" : `In ${value}` }));

/** Makes the successor of a key, and ends the key after an overlap. */
export function RotateKey({ apiKey, onClose }: { apiKey: ApiKey; onClose: () => void }) {
  const [successor_id] = useState(() => crypto.randomUUID());
  const [overlap, setOverlap] = useInputState("24 hours");
  const rotation = useKeyChange("rotate_api_key", NEW_API_KEY);
  if (rotation.data) return <TokenAndConnect apiKey={rotation.data} onClose={onClose} />;
  return (
    <KeyForm
      title={`Rotate ${quoted(apiKey.name)}`}
      action="Rotate key"
      makesKey
      work={rotation}
      onSubmit={() => rotation.mutate({ api_key_id: apiKey.id, successor_id, overlap })}
      onClose={onClose}
    >
      <p>
        You get a new key of the same name and lifetime. Give it to the application before the old
        key <code>{apiKey.hint}</code>{" "}
        expires. When its “Last used” no longer changes, you may revoke it.
      </p>
      <NativeSelect
        label="The old key expires"
        data={OVERLAPS}
        value={overlap}
        onChange={setOverlap}
      />
    </KeyForm>
  );
}
