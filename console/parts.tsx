import { Alert, Button, Loader } from "@mantine/core";
import { useClipboard } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { createContext, type ReactNode, useContext } from "react";
import { type LogDays, type LogFilter, type Organization, readDays } from "./data.ts";
import { formatTime, TIME_ZONE } from "./days.ts";

// What several screens show.

export const OrganizationContext = createContext<Organization | null>(null);

/** The organization that the address names, which the person administers. */
export function useOrganization(): Organization {
  const organization = useContext(OrganizationContext);
  if (!organization) throw new Error("no organization around this screen");
  return organization;
}

/** What the days of a filter have; those of the filter before until the answer is there. */
export function useLogDays(filter: LogFilter) {
  return useQuery({
    queryKey: ["log", filter.organizationId, "days", filter],
    queryFn: ({ signal }) => readDays(filter, signal),
    placeholderData: keepPreviousData,
  });
}

/** Whether a day's entries are proven to be those of the day it was sealed; the worst first. */
export const SEAL_STATES = {
  altered: "altered after sealing",
  open: "not yet sealed",
  sealed: "sealed",
  empty: "",
} as const;
export type SealState = keyof typeof SEAL_STATES;

export function sealState(day: string, { counts, seals, altered }: LogDays): SealState {
  if (altered.has(day)) return "altered";
  if (seals.has(day)) return "sealed";
  return counts.has(day) ? "open" : "empty";
}

/** The head of a screen, with what one can do on it. */
export function Head({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="row between head">
      <title>{`${title} – Audit log`}</title>
      <h1>{title}</h1>
      <div className="row">{children}</div>
    </div>
  );
}

export interface CopyProps {
  /** What is copied, as its reader knows it: "ID", "token". */
  label: string;
  text: string;
  /** Show "Copy" alone, where there is one in each row. */
  isShort?: boolean;
}

/** A button that copies a text. */
export function Copy({ label, text, isShort }: CopyProps) {
  const clipboard = useClipboard({ timeout: 3000 });
  const result = clipboard.error ? "Select the text and copy it" : clipboard.copied ? "Copied" : "";
  return (
    <Button
      size="compact-xs"
      variant="default"
      aria-label={result ? undefined : `Copy ${label}`}
      onClick={() => clipboard.copy(text)}
    >
      <span role="status">{result}</span>
      {!result && (isShort ? "Copy" : `Copy ${label}`)}
    </Button>
  );
}

export interface CopyableProps extends CopyProps {
  /** The name of the text. */
  title: string;
}

/** A text to take elsewhere. */
export function Copyable({ title, label, text }: CopyableProps) {
  return (
    <div>
      <div className="row between">
        <strong>{title}</strong>
        <Copy label={label} text={text} />
      </div>
      <pre tabIndex={0} role="group" aria-label={title}>{text}</pre>
    </div>
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
      <div className="row between">
        <span>{error.message}</span>
        {onRetry && (
          <Button size="compact-sm" variant="default" onClick={onRetry}>
            Try again
          </Button>
        )}
      </div>
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
    <div className="empty">
      <h2>{title}</h2>
      <div>{children}</div>
    </div>
  );
}

/** A view that is being read. */
export function Loading({ what }: { what: string }) {
  return (
    <div className="empty" role="status">
      <Loader size="sm" aria-hidden />
      <div>Loading {what} …</div>
    </div>
  );
}
