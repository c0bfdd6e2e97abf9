import * as z from "zod/mini";
import { useKeyChange } from "../data/api_keys.ts";
import { dayOf } from "../shared/days.ts";
import { FormDialog } from "../shared/form_dialog.tsx";
import { quoted } from "../shared/parts.tsx";
import type { KeyDialogProps } from "./key_form.tsx";
import { LastUse } from "./last_use.tsx";

/** Lets a person answer for a key that nobody answers for. */
export function ConfirmKey({ apiKey, onDone, onClose }: KeyDialogProps) {
  const { id, name, hint, created_by_email, confirmed_by_email, maker_left_at } = apiKey;
  const confirmation = useKeyChange("confirm_api_key", z.unknown());
  const news = `You have confirmed ${quoted(name)}: from now on, you answer for it.`;
  return (
    <FormDialog
      title={`Confirm ${quoted(name)} ${hint}?`}
      action="Confirm key"
      work={confirmation}
      onSubmit={() => confirmation.mutate({ api_key_id: id }, { onSuccess: () => onDone(news) })}
      onClose={onClose}
    >
      <LastUse apiKey={apiKey} />
      <p>
        <bdi>{confirmed_by_email ?? created_by_email ?? "Whoever made it"}</bdi>{" "}
        answered for this key, and left{maker_left_at && ` on ${dayOf(maker_left_at)}`}. Whoever has
        its token can still read the log.
      </p>
      <p>
        If an application needs the key, confirm it: it works as before, you answer for it from now
        on, and the log says so. If the person who left may have the token, rotate the key as well.
        If nobody needs it, revoke it instead.
      </p>
    </FormDialog>
  );
}
