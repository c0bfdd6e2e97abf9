import "@mantine/core/styles/Notification.css";
import { Box, Notification } from "@mantine/core";
import { useEffect, useSyncExternalStore } from "react";

const SHOWN_MS = 10_000;

let notice: { text: string } | null = null;
const listeners = new Set<() => void>();

function show(next: typeof notice): void {
  notice = next;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Tells a person what a press led to, on this screen or the next. */
export function notify(text: string): void {
  show({ text });
}

/** Shows the last notice for some seconds. Screen readers hear it. */
export function Notices() {
  const shown = useSyncExternalStore(subscribe, () => notice);
  useEffect(() => {
    const timer = shown && setTimeout(() => show(null), SHOWN_MS);
    return () => clearTimeout(timer ?? undefined);
  }, [shown]);
  return (
    <Box
      role="status"
      pos="fixed"
      bottom={16}
      right={16}
      maw="min(420px, 100vw - 32px)"
      style={{ zIndex: 300, overflowWrap: "anywhere" }}
    >
      {shown && (
        <Notification
          role="group"
          withBorder
          color="green"
          closeButtonProps={{ "aria-label": "Close the notification" }}
          onClose={() => show(null)}
        >
          {shown.text}
        </Notification>
      )}
    </Box>
  );
}
