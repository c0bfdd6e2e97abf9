import { NativeSelect } from "@mantine/core";
import { useInputState } from "@mantine/hooks";
import { useState } from "react";
import { type ApiKey, useNewKey } from "../data/api_keys.ts";
import { DAY_MS, dayOf, formatTime, now } from "../shared/days.ts";
import { FormDialog } from "../shared/form_dialog.tsx";
import { quoted } from "../shared/parts.tsx";
import { TOKEN, Token } from "./token.tsx";

const OVERLAPS = [["At once", 0], ["In 24 hours", 1], ["In 7 days", 7], ["In 30 days", 30]]
  .map(([label, days]) => ({ label: String(label), value: String(Number(days) * DAY_MS) }));

export function RotateKey({ apiKey, onClose }: { apiKey: ApiKey; onClose: () => void }) {
  const { id, name, hint, expires_at, owner_left_at } = apiKey;
  const [successor_id] = useState(() => crypto.randomUUID());
  const [overlap, setOverlap] = useInputState(String(7 * DAY_MS));
  const rotation = useNewKey("rotate_api_key");
  if (rotation.data) return <Token apiKey={rotation.data} onClose={onClose} />;
  const end = Math.min(now() + Number(overlap), expires_at ? Date.parse(expires_at) : Infinity);
  return (
    <FormDialog
      title={`Rotate ${quoted(name)}`}
      action="Rotate key"
      loss={TOKEN}
      work={rotation}
      onSubmit={() =>
        rotation.mutate({
          api_key_id: id,
          successor_id,
          overlap: `${Number(overlap) / 1000} seconds`,
        })}
      onClose={onClose}
    >
      <p>
        You get a new key with the same name and lifetime. Give its token to the application before
        the old key <code>{hint}</code>{" "}
        expires. When the list says that the new key was used, you may revoke the old one.
      </p>
      {owner_left_at && (
        <p>
          The owner of the old key left on{" "}
          {dayOf(owner_left_at)}, and may still have its token. You become the owner of the new key.
        </p>
      )}
      <NativeSelect
        label="The old key expires"
        data={OVERLAPS}
        value={overlap}
        onChange={setOverlap}
      />
      <p role="status">
        {overlap === "0"
          ? "As soon as you press “Rotate key”, every request with the old key is rejected."
          : `The old key works until ${formatTime(new Date(end).toISOString()).slice(0, 16)} UTC.`}
      </p>
    </FormDialog>
  );
}
