import "@mantine/core/styles/Notification.css";
import { Box, Notification } from "@mantine/core";
import { useWindowEvent } from "@mantine/hooks";
import { useEffect, useState } from "react";

const EVENT = "audit-log-notice";
const SHOWN_MS = 10_000;

/** Tells a person what a press led to, on this screen or the next. */
export function notify(text: string): void {
  dispatchEvent(new CustomEvent(EVENT, { detail: text }));
}

/** Shows the last notice for some seconds. Screen readers hear it. */
export function Notices() {
  const [shown, setShown] = useState<{ text: string } | null>(null);
  useWindowEvent(EVENT, ({ detail }: CustomEvent) => setShown({ text: detail }));
  useEffect(() => {
    const timer = setTimeout(() => setShown(null), SHOWN_MS);
    return () => clearTimeout(timer);
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
          onClose={() => setShown(null)}
        >
          {shown.text}
        </Notification>
      )}
    </Box>
  );
}
