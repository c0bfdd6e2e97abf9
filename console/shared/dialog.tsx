import { Alert, Button, Group, Modal, Stack } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useBlocker } from "@tanstack/react-router";
import type { FormEvent, ReactNode } from "react";
import { Failure } from "./parts.tsx";
import { RequestError } from "./transport.ts";

export interface DialogProps {
  title: string;
  /** Lets only a button inside close the dialog, so that a slip of the finger loses nothing. */
  isBusy: boolean;
  /** Whether the dialog shows a token now or soon. Leaving the page then brings up a warning. */
  hasToken?: boolean;
  onClose: () => void;
  children: ReactNode;
}

export function Dialog({ title, isBusy, hasToken, onClose, children }: DialogProps) {
  const isHeld = isBusy && hasToken === true;
  const leaving = useBlocker({
    shouldBlockFn: () => isHeld,
    enableBeforeUnload: isHeld,
    withResolver: true,
  });
  return (
    <Modal
      opened
      onClose={onClose}
      title={title}
      size="lg"
      closeOnClickOutside={!isBusy}
      closeOnEscape={!isBusy}
      withCloseButton={!isBusy}
    >
      <Stack>
        {isHeld && leaving.status === "blocked" && (
          <Alert color="red" role="alert" title="If you leave now, the token is lost">
            <Group gap="xs">
              <Button size="compact-sm" variant="filled" onClick={leaving.reset}>Stay</Button>
              <Button size="compact-sm" onClick={leaving.proceed}>Leave without it</Button>
            </Group>
          </Alert>
        )}
        {children}
      </Stack>
    </Modal>
  );
}

export interface FormDialogProps extends Omit<DialogProps, "isBusy"> {
  action: string;
  color?: string;
  work: { error: Error | null; isPending: boolean };
  isDisabled?: boolean;
  onSubmit: () => void;
}

const MAY_BE_MADE = "The key may exist all the same. Try again here: this makes no second key.";
const MAY_BE_REVOKED = "The key may be revoked all the same. Try again: this does no harm.";

/** A dialog with a form about a key. It sends the form once, however often a person submits it meanwhile. */
export function FormDialog(props: FormDialogProps) {
  const { action, color = "blue", work, isDisabled = false, onSubmit, children, ...dialog } = props;
  const client = useQueryClient();
  function submit(event: FormEvent) {
    event.preventDefault();
    // Asks the client, because `work` does not know yet of a click in the same moment.
    if (!isDisabled && client.isMutating() === 0) onSubmit();
  }
  const { error, isPending } = work;
  const ifUnknown = dialog.hasToken ? MAY_BE_MADE : MAY_BE_REVOKED;
  return (
    <Dialog {...dialog} isBusy={isPending}>
      <form onSubmit={submit}>
        <Stack>
          {children}
          <Failure
            error={error instanceof RequestError && error.isOutcomeUnknown
              ? new Error(`${error.message} ${ifUnknown}`)
              : error}
          />
          <Group justify="flex-end" gap="xs">
            <Button disabled={isPending} onClick={dialog.onClose}>Cancel</Button>
            <Button type="submit" variant="filled" color={color} disabled={isDisabled}>
              {isPending ? "One moment …" : action}
            </Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}

export function quoted(name: string): string {
  return `“${isolated(name)}”`;
}

/** Keeps a name from turning the direction of the text around it, where a <bdi> cannot stand. */
export function isolated(name: string): string {
  return `\u2068${name}\u2069`;
}
