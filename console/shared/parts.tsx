import { Alert, Button, Group, Loader, Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { formatTime, TIME_ZONE } from "./days.ts";
import { Icon } from "./icons.tsx";
import styles from "./parts.module.css";

// What several screens show.

/** The head of a screen, with what one can do on it. */
export function Head({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <Group className={styles.head ?? ""} justify="space-between" gap="xs" mih={32}>
      <title>{`${title} – Audit log`}</title>
      <h1>{title}</h1>
      <Group gap="xs">{children}</Group>
    </Group>
  );
}

/** What a screen is for. */
export function Lead({ children }: { children: ReactNode }) {
  return <Text inherit c="dimmed" maw="80ch">{children}</Text>;
}

/** What says more about what stands before it. */
export function Hint({ children }: { children: ReactNode }) {
  return <Text component="div" inherit fz={12} lh={1.4} c="dimmed">{children}</Text>;
}

/** A word with a coloured dot. */
export function State({ colour, children }: { colour: string; children: ReactNode }) {
  return (
    <span>
      <span className={styles.dot} style={{ background: colour }} />
      {children}
    </span>
  );
}

/** A time in UTC; both are said when one points at it. */
export function Time({ value, children }: { value: string; children?: ReactNode }) {
  const local = `${formatTime(value, "local", true)} ${TIME_ZONE}`;
  return (
    <time dateTime={value} title={`${formatTime(value, "utc", true)} UTC\n${local}`}>
      {children ?? formatTime(value, "utc")}
    </time>
  );
}

/** Why something has not happened, if it has not. */
export function Failure({ error, onRetry }: { error: Error | null; onRetry?: () => void }) {
  if (!error) return null;
  return (
    <Alert color="red" role="alert">
      <Group justify="space-between" gap="xs">
        <span>{error.message}</span>
        {onRetry && (
          <Button size="compact-sm" variant="default" onClick={onRetry}>
            Try again
          </Button>
        )}
      </Group>
    </Alert>
  );
}

/** What is left when a screen breaks. */
export function Broken({ error }: { error: unknown }) {
  return (
    <Failure
      error={new Error(`This page has broken (${String(error)}).`)}
      onRetry={() => location.reload()}
    />
  );
}

/** A view without anything in it, and what to do about it. */
export function Empty({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Stack align="center" gap="xs" px="md" py={56} c="dimmed" ta="center">
      <Icon name="search" size={28} />
      <h2>{title}</h2>
      {children}
    </Stack>
  );
}

/** A view that is being read. */
export function Loading({ what }: { what: string }) {
  return (
    <Stack align="center" gap="xs" py={56} c="dimmed" role="status">
      <Loader size="sm" aria-hidden />
      <div>Loading {what} …</div>
    </Stack>
  );
}
