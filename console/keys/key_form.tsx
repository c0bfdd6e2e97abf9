import { FormDialog, type FormDialogProps } from "../shared/form_dialog.tsx";
import { RequestError } from "../shared/transport.ts";

export interface KeyFormProps extends Omit<FormDialogProps, "colour" | "loss"> {
  /** Whether the form makes a key, whose token comes with the answer. Otherwise it revokes one. */
  makesKey: boolean;
}

/** A dialog with a form about a key. */
export function KeyForm({ makesKey, work: { error, isPending }, ...props }: KeyFormProps) {
  return (
    <FormDialog
      {...props}
      colour={makesKey ? "blue" : "red"}
      {...makesKey && { loss: TOKEN }}
      work={{ error: error && explain(error, makesKey), isPending }}
    />
  );
}

/** What is lost when a person leaves a dialog that has a token, or waits for one. */
export const TOKEN = "the token";

const MADE_BEFORE = "An earlier attempt made this key, but its token was lost. " +
  "Close this, revoke the key in the list, and create another.";
const MAY_BE_MADE = "The key may exist anyway. Try again here: this creates no second key.";
const MAY_BE_REVOKED = "The key may already be revoked. Trying again does no harm.";

function explain(error: Error, makesKey: boolean): Error {
  if (!(error instanceof RequestError)) return error;
  if (error.code === "23505") return new Error(MADE_BEFORE);
  if (!error.isOutcomeUnknown) return error;
  return new Error(`${error.message} ${makesKey ? MAY_BE_MADE : MAY_BE_REVOKED}`);
}
