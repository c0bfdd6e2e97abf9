import { Button, Group, Stack } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import type { FormEvent, ReactNode } from "react";
import { Dialog } from "../shared/dialog.tsx";
import { Failure } from "../shared/parts.tsx";
import { RequestError } from "../shared/transport.ts";

export interface KeyFormProps {
  title: string;
  action: string;
  /** Whether the form makes a key, whose token comes with the answer. Otherwise it revokes one. */
  makesKey: boolean;
  work: { error: Error | null; isPending: boolean };
  isDisabled?: boolean;
  onSubmit: () => void;
  onClose: () => void;
  children: ReactNode;
}

/** A dialog with a form about a key. It sends the form once, however often a person submits it meanwhile. */
export function KeyForm(props: KeyFormProps) {
  const { title, action, makesKey, work, isDisabled = false, onSubmit, onClose, children } = props;
  const client = useQueryClient();
  function submit(event: FormEvent) {
    event.preventDefault();
    // Asks the client, because `work` does not know yet of a click in the same moment.
    if (!isDisabled && client.isMutating() === 0) onSubmit();
  }
  const { error, isPending } = work;
  return (
    <Dialog title={title} isBusy={isPending} {...makesKey && { loss: TOKEN }} onClose={onClose}>
      <form onSubmit={submit}>
        <Stack>
          {children}
          <Failure error={error && explain(error, makesKey)} />
          <Group justify="flex-end" gap="xs">
            <Button disabled={isPending} onClick={onClose}>Cancel</Button>
            <Button
              type="submit"
              variant="filled"
              color={makesKey ? "blue" : "red"}
              disabled={isDisabled}
            >
              {isPending ? "One moment …" : action}
            </Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}

/** What is lost when a person leaves a dialog that has a token, or waits for one. */
export const TOKEN = "the token";

const MADE_BEFORE = "An earlier attempt made this key, but its token got lost. " +
  "Close this, revoke the key in the list, and create another.";
const MAY_BE_MADE = "The key may exist all the same. Try again here: this makes no second key.";
const MAY_BE_REVOKED = "The key may be revoked all the same. Try again: this does no harm.";

function explain(error: Error, makesKey: boolean): Error {
  if (!(error instanceof RequestError)) return error;
  if (error.code === "23505") return new Error(MADE_BEFORE);
  if (!error.isOutcomeUnknown) return error;
  return new Error(`${error.message} ${makesKey ? MAY_BE_MADE : MAY_BE_REVOKED}`);
}

/** A name in quotes. It does not turn the direction of the text around it, where a <bdi> cannot stand. */
export function quoted(name: string): string {
  return `“\u2068${name}\u2069”`;
}
