import { Alert, Anchor, Button, Group, Skeleton, Stack, Text, VisuallyHidden } from "@mantine/core";
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { formatTime } from "./days.ts";
import { Icon } from "./icons.tsx";
import styles from "./parts.module.css";
import { RequestError } from "./transport.ts";
import { visible } from "../../supabase/functions/_shared/visible.ts";

export function Head({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <Group className={styles.head ?? ""} justify="space-between" gap="xs" mih={32}>
      <title>{`${title} – Audit log`}</title>
      <h1>{title}</h1>
      <Group gap={8}>{children}</Group>
    </Group>
  );
}

export function Lead({ children }: { children: ReactNode }) {
  return <Text inherit c="dimmed" maw="80ch">{children}</Text>;
}

/** Small print below a value. A plain text is also the tooltip, because it may be cut off. */
export function Hint({ children }: { children: ReactNode }) {
  const text = typeof children === "string" ? visible(children) : undefined;
  return (
    <Text component="div" inherit fz={12} lh={1.4} c="dimmed" title={text}>{text ?? children}</Text>
  );
}

export function Facts({ children }: { children: ReactNode }) {
  return <dl className={styles.facts}>{children}</dl>;
}

export function Fact({ name, children }: { name: ReactNode; children: ReactNode }) {
  return (
    <>
      <Text component="dt" inherit c="dimmed">{name}</Text>
      <dd>{children}</dd>
    </>
  );
}

export interface StateProps {
  name: string;
  colour: string;
}

const DOT = {
  display: "inline-block",
  width: 8,
  height: 8,
  marginRight: 8,
  borderRadius: "50%",
  // Forced colours would take the dot away.
  forcedColorAdjust: "none",
} as const;

export function State({ name, colour }: StateProps) {
  return (
    <span>
      <span style={{ ...DOT, background: colour }} />
      {name}
    </span>
  );
}

/** An action code in words: "Feedback given". A code that is not words stands as it is. */
export function actionName(code: string): string {
  if (!/^[a-z][a-z0-9_.]*$/.test(code)) return code;
  const words = code.replaceAll(/[_.]/g, " ");
  return words.slice(0, 1).toUpperCase() + words.slice(1);
}

/** A time in UTC. The tooltip also has milliseconds. */
export function Time({ value, children }: { value: string; children?: ReactNode }) {
  return (
    <time dateTime={value} title={`${formatTime(value)} UTC`}>
      {children ?? formatTime(value).slice(0, 19)}
    </time>
  );
}

export function Failure({ error, onRetry }: { error: Error | null; onRetry?: () => void }) {
  if (!error) return null;
  return (
    <Alert color="red" role="alert">
      <Group justify="space-between" gap="xs">
        <span>{visible(error.message)}</span>
        {onRetry && <Button size="compact-sm" onClick={onRetry}>Try again</Button>}
      </Group>
    </Alert>
  );
}

export function Broken({ error }: { error: unknown }) {
  const broken = new Error(`This page has broken (${String(error)}).`);
  // Not all browsers ask again for a script that did not load.
  const onRetry = () => location.reload();
  return <Failure error={error instanceof RequestError ? error : broken} onRetry={onRetry} />;
}

export function Empty({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Stack align="center" gap="xs" px="md" py={56} c="dimmed" ta="center">
      <Icon name="search" size={28} />
      <h2>{title}</h2>
      {children}
    </Stack>
  );
}

export function Loading({ what }: { what: string }) {
  return (
    <Stack gap="lg" py="sm" role="status">
      <VisuallyHidden>Loading {what} …</VisuallyHidden>
      {[80, 65, 75, 60].map((width) => <Skeleton key={width} h={14} w={`${width}%`} />)}
    </Stack>
  );
}

interface AnswerProps<T> {
  query: UseQueryResult<T>;
  what: string;
  children: (data: T) => ReactNode;
}

export function Answer<T>({ query, what, children }: AnswerProps<T>) {
  return (
    <>
      <Failure error={query.error} onRetry={query.refetch} />
      {query.isPending && <Loading what={what} />}
      {query.data !== undefined && children(query.data)}
    </>
  );
}

/** A button like a link, at least 24 pixels high (WCAG 2.2, 2.5.8). */
export function TextButton(props: { title?: string; onClick: () => void; children: ReactNode }) {
  return <Anchor component="button" type="button" fz="inherit" ta="left" mih={24} {...props} />;
}

/** A name in quotes. It does not turn the direction of the text around it, where a <bdi> cannot stand. */
export function quoted(name: string): string {
  return `“\u2068${name}\u2069”`;
}
