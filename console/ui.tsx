import { type ReactNode, useState } from "react";
import {
  Button,
  Dialog,
  FieldError,
  Heading,
  Input,
  Label,
  ListBox,
  ListBoxItem,
  Modal,
  ModalOverlay,
  Popover,
  Select,
  SelectValue,
  TextField as AriaTextField,
  type TextFieldProps as AriaTextFieldProps,
} from "react-aria-components";

// What the views have in common, as it looks here.

export interface TextFieldProps extends AriaTextFieldProps {
  label: ReactNode;
}

/** A labelled input with its error. */
export function TextField({ label, ...props }: TextFieldProps) {
  return (
    <AriaTextField className="field" {...props}>
      <Label>{label}</Label>
      <Input />
      <FieldError className="field-error" />
    </AriaTextField>
  );
}

export interface ChoiceProps {
  label: string;
  isLabelHidden?: boolean;
  choices: { id: string; name: string }[];
  chosen: string;
  onChange: (id: string) => void;
}

/** One of several. */
export function Choice({ label, isLabelHidden, choices, chosen, onChange }: ChoiceProps) {
  return (
    <Select className="field select" value={chosen} onChange={(id) => onChange(String(id))}>
      <Label className={isLabelHidden ? "visually-hidden" : ""}>{label}</Label>
      <Button className="button">
        <SelectValue />
        <span aria-hidden="true">▾</span>
      </Button>
      <Popover className="popover">
        <ListBox items={choices} className="list-box">
          {({ id, name }) => <ListBoxItem id={id} textValue={name}>{name}</ListBoxItem>}
        </ListBox>
      </Popover>
    </Select>
  );
}

export interface MessageProps {
  kind: "error" | "warning" | "success" | "info";
  children: ReactNode;
}

/** Something the person has to know. Screen readers read it out when it appears. */
export function Message({ kind, children }: MessageProps) {
  return (
    <div className={`message ${kind}`} role={kind === "error" ? "alert" : "status"}>{children}</div>
  );
}

export interface FailureProps {
  error: Error;
  onRetry: () => void;
}

/** A view that could not be read. */
export function Failure({ error, onRetry }: FailureProps) {
  return (
    <Message kind="error">
      <p>{error.message}</p>
      <Button className="button" onPress={onRetry}>Try again</Button>
    </Message>
  );
}

/** A view that is being read. */
export function Loading({ what }: { what: string }) {
  return <p className="loading" role="status">Loading {what} …</p>;
}

export interface ModalDialogProps {
  title: ReactNode;
  role?: "dialog" | "alertdialog";
  /** Called by Escape and the like; without it, only what is inside closes the dialog. */
  onClose?: (() => void) | undefined;
  children: ReactNode;
}

/** A dialog over the page, open as long as it is rendered. */
export function ModalDialog({ title, role = "dialog", onClose, children }: ModalDialogProps) {
  return (
    <ModalOverlay
      className="overlay"
      isOpen
      isKeyboardDismissDisabled={!onClose}
      onOpenChange={(isOpen) => !isOpen && onClose?.()}
    >
      <Modal className="modal">
        <Dialog role={role} className="dialog">
          <Heading slot="title">{title}</Heading>
          {children}
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
}

/** As a ref: gives an element the focus when it appears, where what had it is gone. */
export function takeFocus(element: HTMLElement | null): void {
  element?.focus();
}

export interface CopyableProps {
  label: string;
  text: string;
}

/** A text to take elsewhere, with a button that copies it. */
export function Copyable({ label, text }: CopyableProps) {
  const [result, setResult] = useState("");
  async function copy() {
    try {
      await navigator.clipboard.writeText(text);
      setResult("Copied.");
    } catch {
      setResult("This browser does not let the page copy: select the text and copy it yourself.");
    }
  }
  return (
    <div className="copyable">
      <div className="copyable-head">
        <span>{label}</span>
        <Button className="button small" aria-label={`Copy ${label}`} onPress={copy}>Copy</Button>
      </div>
      <pre tabIndex={0} aria-label={label} role="group"><code>{text}</code></pre>
      <p className="copied" role="status">{result}</p>
    </div>
  );
}

export interface TimeProps {
  /** As the Data API writes it. */
  value: string;
  /** Show milliseconds. */
  isExact?: boolean;
}

/** A time in the viewer's zone; in UTC when one points at it. */
export function Time({ value, isExact = false }: TimeProps) {
  const time = new Date(value);
  const utc = time.toISOString();
  return (
    <time dateTime={utc} title={`${utc.replace("T", " ").replace("Z", "")} UTC`}>
      {localTime(time, isExact)}
    </time>
  );
}

/** The viewer's time zone, as in `Europe/Berlin`. */
export const TIME_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

function localTime(time: Date, isExact: boolean): string {
  const pad = (value: number, length = 2) => String(value).padStart(length, "0");
  const date = [pad(time.getFullYear(), 4), pad(time.getMonth() + 1), pad(time.getDate())].join(
    "-",
  );
  const clock = [time.getHours(), time.getMinutes(), time.getSeconds()].map((part) => pad(part))
    .join(":");
  if (!isExact) return `${date} ${clock}`;
  // With the offset: when clocks are set back, one hour comes twice.
  const offset = -time.getTimezoneOffset();
  const [hours, minutes] = [Math.trunc(Math.abs(offset) / 60), Math.abs(offset) % 60];
  const zone = `${offset < 0 ? "-" : "+"}${pad(hours)}:${pad(minutes)}`;
  return `${date} ${clock}.${pad(time.getMilliseconds(), 3)} ${zone}`;
}
