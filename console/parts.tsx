import { Alert, Button, Loader } from "@mantine/core";
import { useClipboard } from "@mantine/hooks";
import { createContext, type ReactNode, useContext } from "react";
import { type Organization, RequestError } from "./data.ts";
import { formatTime, TIME_ZONE, type Zone } from "./days.ts";

// What several screens show.

export const OrganizationContext = createContext<Organization | null>(null);

/** The organization that the address names, which the person administers. */
export function useOrganization(): Organization {
  const organization = useContext(OrganizationContext);
  if (!organization) throw new Error("no organization around this screen");
  return organization;
}

export interface HeadProps {
  title: string;
  children?: ReactNode;
}

/** The head of a screen, with what one can do on it. */
export function Head({ title, children }: HeadProps) {
  return (
    <div className="head">
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
        <span className="label">{title}</span>
        <Copy label={label} text={text} />
      </div>
      <pre tabIndex={0} role="group" aria-label={title}>{text}</pre>
    </div>
  );
}

export interface TimeProps {
  /** ISO 8601. */
  value: string;
  zone?: Zone;
  milliseconds?: boolean;
  children?: ReactNode;
}

/** A time, in UTC unless told otherwise; both are said when one points at it. */
export function Time({ value, zone = "utc", milliseconds, children }: TimeProps) {
  const both = `${formatTime(value, "utc", true)} UTC\n${
    formatTime(value, "local", true)
  } ${TIME_ZONE}`;
  return (
    <time dateTime={value} title={both}>{children ?? formatTime(value, zone, milliseconds)}</time>
  );
}

export interface FailureProps {
  error: Error | null;
  onRetry?: () => void;
}

/** Why something has not happened, if it has not. */
export function Failure({ error, onRetry }: FailureProps) {
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

export interface EmptyProps {
  title: string;
  children: ReactNode;
}

/** A view without anything in it, and what to do about it. */
export function Empty({ title, children }: EmptyProps) {
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

/** How each dialog and drawer is made here. */
export const DIALOG = {
  // It would write a style element, which the page's policy forbids.
  lockScroll: false,
  // Mantine's header element would be a second banner of the page.
  attributes: { header: { role: "presentation" } },
  closeButtonProps: { "aria-label": "Close" },
};

/** How each menu is made here: in the landmark where its button is, with nothing but items in it. */
export const MENU = { withinPortal: false, withInitialFocusPlaceholder: false };

/** Whether asking again by itself may help: nothing came, not even a refusal. */
export function isUnanswered(error: Error | null): boolean {
  return error instanceof RequestError && error.isOutcomeUnknown;
}
