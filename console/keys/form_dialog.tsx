import { Alert, Button, Group, Modal, Stack } from "@mantine/core";
import { useBlocker } from "@tanstack/react-router";
import { type FormEvent, type ReactNode, useRef } from "react";
import { Failure } from "../shared/parts.tsx";
import { RequestError } from "../shared/transport.ts";

export interface KeyDialogProps {
  title: string;
  /** Lets only a button inside close the dialog, so that a slip of the finger loses nothing. */
  isBusy: boolean;
  /** Whether the dialog shows a token now or soon. Then whoever leaves the page is warned. */
  hasToken?: boolean;
  onClose: () => void;
  children: ReactNode;
}

export function KeyDialog({ title, isBusy, hasToken, onClose, children }: KeyDialogProps) {
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
      <Stack gap="md">
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

export interface FormDialogProps extends Omit<KeyDialogProps, "isBusy"> {
  action: string;
  color?: string;
  work: { error: Error | null; isPending: boolean };
  isDisabled?: boolean;
  /** Sends the form; null when something in it is wrong. */
  onSubmit: () => Promise<unknown> | null;
}

const MAY_BE_MADE =
  "The key may have been made all the same. Trying again here makes no second one.";
const MAY_BE_REVOKED = "The key may be revoked all the same. Trying again does no harm.";

/** A dialog with a form. However often it is submitted before the answer, it is sent once. */
export function FormDialog(props: FormDialogProps) {
  const { action, color = "blue", work, isDisabled = false, onSubmit, children, ...dialog } = props;
  // Not a state: a second click in the same moment must see it.
  const isSent = useRef(false);
  function submit(event: FormEvent) {
    event.preventDefault();
    if (isDisabled || isSent.current) return;
    const sending = onSubmit();
    if (!sending) return;
    isSent.current = true;
    // The error is in `work`.
    sending.catch(() => {}).finally(() => isSent.current = false);
  }
  const { error, isPending } = work;
  const ifUnknown = dialog.hasToken ? MAY_BE_MADE : MAY_BE_REVOKED;
  return (
    <KeyDialog {...dialog} isBusy={isPending}>
      <form noValidate onSubmit={submit}>
        <Stack gap="md">
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
    </KeyDialog>
  );
}

export function quoted(name: string): string {
  return `“${isolated(name)}”`;
}

/** A name that cannot turn the direction of the text around it. Unlike a <bdi>, it is a text. */
export function isolated(name: string): string {
  return `\u2068${name}\u2069`;
}
