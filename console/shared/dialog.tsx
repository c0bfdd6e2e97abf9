import { Alert, Button, Group, Modal, Stack } from "@mantine/core";
import { useBlocker } from "@tanstack/react-router";
import { type ReactNode, useEffect } from "react";

let focused: HTMLElement | null = null;
addEventListener("focusin", ({ target }) => {
  if (target instanceof HTMLElement && !target.closest("section[role=dialog], [role=menu]")) {
    focused = target;
  }
});

/** Gives the focus back where it was: to a button, or to the one whose menu opened the dialog. */
export function giveFocusBack(): void {
  const target = focused?.isConnected ? focused : document.querySelector("main");
  target?.focus({ preventScroll: true });
}

interface DialogProps {
  title: string;
  /** Lets only a button inside close the dialog, so that a slip of the finger loses nothing. */
  isBusy: boolean;
  /** What leaving the page would lose while the dialog is busy. With it, leaving brings up a warning. */
  loss?: string;
  onClose: () => void;
  children: ReactNode;
}

export function Dialog({ title, isBusy, loss, onClose, children }: DialogProps) {
  useEffect(() => giveFocusBack, []);
  const isHeld = isBusy && loss !== undefined;
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
        {leaving.status === "blocked" && (
          <Alert color="red" role="alert" title={`If you leave now, ${loss} is lost`}>
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
