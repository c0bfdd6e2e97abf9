import { Box, Button, Popover } from "@mantine/core";
import { useWindowEvent } from "@mantine/hooks";
import { CatchBoundary } from "@tanstack/react-router";
import { type ReactNode, Suspense, useState } from "react";
import { Icon, type IconName } from "./icons.tsx";
import { Broken } from "./parts.tsx";
import styles from "./parts.module.css";

interface DropdownProps {
  icon: IconName;
  label: ReactNode;
  /** The key that presses the button. */
  shortcut?: "/";
  children: (close: () => void) => ReactNode;
}

export function Dropdown({ icon, label, shortcut, children }: DropdownProps) {
  const [isOpen, setIsOpen] = useState(false);
  // The browser's Back leads to another list, for which this is too late.
  useWindowEvent("popstate", () => setIsOpen(false));
  return (
    <Popover
      opened={isOpen}
      onChange={setIsOpen}
      trapFocus
      returnFocus
      shadow="md"
      position="bottom-start"
    >
      <Popover.Target>
        <Button
          className={styles.dropdown ?? ""}
          style={{ justifySelf: "start" }}
          leftSection={<Icon name={icon} />}
          aria-keyshortcuts={shortcut}
          onClick={() => setIsOpen(!isOpen)}
        >
          {label}
        </Button>
      </Popover.Target>
      <Popover.Dropdown>{children(() => setIsOpen(false))}</Popover.Dropdown>
    </Popover>
  );
}

/** Shows a part that is loaded when it is needed, or why it cannot be. */
export function Late({ height, children }: { height: number; children: ReactNode }) {
  return (
    <CatchBoundary getResetKey={() => 0} errorComponent={Broken}>
      <Suspense fallback={<Box h={height} />}>{children}</Suspense>
    </CatchBoundary>
  );
}
