import { Alert, Button, Group, Modal, Stack } from "@mantine/core";
import { useBlocker } from "@tanstack/react-router";
import { type FormEvent, type ReactNode, useRef } from "react";
import { Failure } from "../shared/parts.tsx";
import { RequestError } from "../shared/transport.ts";

export interface KeyDialogProps {
  title: string;
  /** Whether only what is inside may close it: nothing is lost by a slip of the finger. */
  isBusy: boolean;
  /** What is lost when one leaves the page meanwhile. */
  warning?: string | undefined;
  onClose: () => void;
  children: ReactNode;
}

export const TOKEN_LOST = "If you leave now, the token is lost";

export function KeyDialog({ title, isBusy, warning, onClose, children }: KeyDialogProps) {
  const isHeld = isBusy && warning !== undefined;
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
          <Alert color="red" role="alert" title={warning}>
            <Group gap="xs">
              <Button size="compact-sm" onClick={leaving.reset}>Stay</Button>
              <Button size="compact-sm" variant="default" onClick={leaving.proceed}>
                Leave without it
              </Button>
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
  /** What the button says meanwhile. */
  busy: string;
  color?: string;
  work: { error: Error | null; isPending: boolean };
  /** What may be so when no answer comes. */
  ifUnknown: string;
  isDisabled?: boolean;
  /** Sends what was filled in; null when it is not right. */
  onSubmit: () => Promise<unknown> | null;
}

/** A dialog with a form, which is sent once, however often it is submitted before the answer. */
export function FormDialog(props: FormDialogProps) {
  const {
    action,
    busy,
    color,
    work,
    ifUnknown,
    isDisabled = false,
    onSubmit,
    children,
    ...dialog
  } = props;
  // Known at once, unlike the state: a second click in the same moment must not take the answer's place.
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
            <Button variant="default" disabled={isPending} onClick={dialog.onClose}>Cancel</Button>
            <Button type="submit" disabled={isDisabled} {...color ? { color } : {}}>
              {isPending ? busy : action}
            </Button>
          </Group>
        </Stack>
      </form>
    </KeyDialog>
  );
}

export const MAY_BE_MADE =
  "The key may have been made all the same; trying again here makes no second one.";

export function quoted(name: string): string {
  return `“${isolated(name)}”`;
}

/** A name that cannot turn the direction of the text around it, as in a <bdi>. */
export function isolated(name: string): string {
  return `\u2068${name}\u2069`;
}
