import { Alert, Button, Checkbox, Modal, Select, Stack, TextInput } from "@mantine/core";
import { useMutation, type UseMutationResult } from "@tanstack/react-query";
import { useBlocker } from "@tanstack/react-router";
import { type FormEvent, type ReactNode, useEffect, useRef, useState } from "react";
import {
  type ApiKey,
  AUDIT_LOG_URL,
  createApiKey,
  type NewApiKey,
  type Organization,
  RequestError,
  revokeApiKey,
  rotateApiKey,
  type Use,
} from "./data.ts";
import { count, formatRelative, isDay, presetDays, today } from "./days.ts";
import { Copyable, Failure } from "./parts.tsx";

const MAX_NAME_LENGTH = 100;
const MAX_YEARS = 5;

export interface KeyDialogProps {
  organization: Organization;
  /** Called when something has changed, or may have. */
  onChange: () => void;
  onClose: () => void;
}

const LIFETIMES = [
  { value: "30", label: "In 30 days" },
  { value: "90", label: "In 90 days" },
  { value: "365", label: "In a year" },
  { value: "never", label: "Never" },
  { value: "day", label: "After a day …" },
];

/** Asks for a name and an end, then shows the token. */
export function CreateKey({ organization, onChange, onClose }: KeyDialogProps) {
  // One for the whole dialog, so that trying again after a lost answer cannot make a second key.
  const [id] = useState(() => crypto.randomUUID());
  const [name, setName] = useState("");
  const [lifetime, setLifetime] = useState("365");
  const [lastDay, setLastDay] = useState("");
  const [isSent, setIsSent] = useState(false);
  const creation = useMutation({
    mutationFn: () =>
      createApiKey({
        organization_id: organization.id,
        api_key_id: id,
        name,
        ...lifetime === "never" ? {} : { expires_at: expiresAt(lifetime, lastDay) },
      }),
    onSettled: onChange,
  });
  const nameError = explainName(name);
  const dayError = lifetime === "day" ? explainLastDay(lastDay) : "";
  if (creation.data) return <Token apiKey={creation.data} onClose={onClose} />;
  return (
    <FormDialog
      title="Create an API key"
      action="Create key"
      busy="Creating …"
      work={creation}
      ifUnknown={MAY_BE_MADE}
      warning={TOKEN_LOST}
      onSubmit={() => {
        setIsSent(true);
        return !nameError && !dayError;
      }}
      onClose={onClose}
    >
      <TextInput
        label="Name"
        description="The application that gets it. It cannot be changed later."
        data-autofocus
        value={name}
        error={isSent && nameError}
        onChange={({ currentTarget: { value } }) => setName(value)}
      />
      <Select
        label="Expires"
        data={LIFETIMES}
        value={lifetime}
        onChange={(value) => setLifetime(value ?? "365")}
      />
      {lifetime === "day" && (
        <TextInput
          label="Last day (UTC)"
          placeholder="YYYY-MM-DD"
          maxLength={10}
          value={lastDay}
          error={isSent && dayError}
          onChange={({ currentTarget: { value } }) => setLastDay(value.trim())}
        />
      )}
    </FormDialog>
  );
}

const MAY_BE_MADE =
  "The key may have been made all the same; trying again here makes no second one.";
const TOKEN_LOST = "If you leave now, the token is lost";

function expiresAt(lifetime: string, lastDay: string): string {
  if (lifetime === "day") return `${lastDay}T24:00:00Z`;
  return new Date(Date.now() + Number(lifetime) * 24 * 60 * 60 * 1000).toISOString();
}

/** What one can say before the database does, which has more rules and explains them. */
function explainName(name: string): string {
  const { length } = [...name.trim().normalize("NFC")];
  if (length === 0) return "A name is needed, not only spaces.";
  return length > MAX_NAME_LENGTH
    ? `At most ${MAX_NAME_LENGTH} characters; this has ${length}.`
    : "";
}

function explainLastDay(day: string): string {
  if (!isDay(day)) return "A day is YYYY-MM-DD";
  if (day < today()) return "That day is over";
  const [year, rest] = [Number(today().slice(0, 4)), today().slice(4)];
  return day < `${year + MAX_YEARS}${rest}` ? "" : `At most ${MAX_YEARS} years ahead`;
}

const OVERLAPS = [
  { value: "0", label: "At once" },
  { value: "1 hour", label: "In an hour" },
  { value: "24 hours", label: "In 24 hours" },
  { value: "7 days", label: "In 7 days" },
  { value: "30 days", label: "In 30 days" },
  { value: "90 days", label: "In 90 days" },
];

export interface RotateKeyProps extends KeyDialogProps {
  apiKey: ApiKey;
}

/** Makes the successor of a key, and ends the key after an overlap. */
export function RotateKey({ organization, apiKey, onChange, onClose }: RotateKeyProps) {
  const [successorId] = useState(() => crypto.randomUUID());
  const [overlap, setOverlap] = useState("24 hours");
  const rotation = useMutation({
    mutationFn: () =>
      rotateApiKey({
        organization_id: organization.id,
        api_key_id: apiKey.id,
        successor_id: successorId,
        overlap,
      }),
    onSettled: onChange,
  });
  if (rotation.data) return <Token apiKey={rotation.data} onClose={onClose} />;
  return (
    <FormDialog
      title={`Rotate ${quoted(apiKey.name)}`}
      action="Rotate key"
      busy="Rotating …"
      work={rotation}
      ifUnknown={MAY_BE_MADE}
      warning={TOKEN_LOST}
      onClose={onClose}
    >
      <p>
        You get a new key of the same name and lifetime. Give it to the application before the old
        one, <code>{apiKey.hint}</code>, ends.
      </p>
      <Select
        label="The old key ends"
        data={OVERLAPS}
        value={overlap}
        onChange={(value) => setOverlap(value ?? "24 hours")}
      />
    </FormDialog>
  );
}

export interface RevokeKeyProps extends RotateKeyProps {
  /** Its use by day; undefined when that could not be read. */
  use: Use[] | undefined;
  onRevoked: () => void;
}

/** Says what revoking will break, and asks for the key's name. */
export function RevokeKey(
  { organization, apiKey, use, onChange, onRevoked, onClose }: RevokeKeyProps,
) {
  const [typed, setTyped] = useState("");
  const isConfirmed = normalized(typed) === normalized(apiKey.name);
  const revocation = useMutation({
    mutationFn: () => revokeApiKey({ organization_id: organization.id, api_key_id: apiKey.id }),
    onSuccess: onRevoked,
    onSettled: onChange,
  });
  return (
    <FormDialog
      title={`Revoke ${quoted(apiKey.name)}?`}
      action="Revoke key"
      busy="Revoking …"
      color="red"
      work={revocation}
      ifUnknown="The key may be revoked all the same; trying again does no harm."
      isDisabled={!isConfirmed}
      onClose={onClose}
    >
      <Alert color={apiKey.last_used_at ? "yellow" : "gray"}>{explainUse(apiKey, use)}</Alert>
      <p>
        From then on every request with <code>{apiKey.hint}</code> gets 401. This cannot be undone.
      </p>
      <TextInput
        label={`Type its name to confirm: ${isolated(apiKey.name)}`}
        data-autofocus
        value={typed}
        onChange={({ currentTarget: { value } }) => setTyped(value)}
      />
    </FormDialog>
  );
}

/** What will break: who uses the key, as far as its use tells. */
function explainUse({ last_used_at }: ApiKey, use: Use[] | undefined): string {
  if (!last_used_at) return "It has never been used.";
  const requests = use?.find(({ day }) => day === today())?.requests ?? 0;
  const from = use?.findLast(({ last_address }) => last_address)?.last_address;
  const known = [
    `Last used ${formatRelative(last_used_at)}`,
    use && `${count(requests, "request")} today`,
    from && `last from ${from}`,
  ];
  return `${known.filter(Boolean).join(", ")}. Whatever uses it stops.`;
}

/** A name as it looks: spaces in a row are shown as one, and an accent may be typed in two ways. */
function normalized(name: string): string {
  return name.trim().replace(/\s+/g, " ").normalize("NFC");
}

function quoted(name: string): string {
  return `“${isolated(name)}”`;
}

/** A name that cannot turn the direction of the text around it, as in a <bdi>. */
function isolated(name: string): string {
  return `\u2068${name}\u2069`;
}

interface TokenProps {
  apiKey: NewApiKey;
  onClose: () => void;
}

/** Shows a token: once, and only here. Nothing but the confirmed button closes it. */
function Token({ apiKey, onClose }: TokenProps) {
  const [isStored, setIsStored] = useState(false);
  // The browser's Back would show the page as it was left.
  useEffect(() => {
    addEventListener("pagehide", onClose);
    return () => removeEventListener("pagehide", onClose);
  }, [onClose]);
  const { start, end } = presetDays("7d");
  return (
    <KeyDialog
      title={`Copy the token of ${quoted(apiKey.name)} now`}
      isBusy
      warning={TOKEN_LOST}
      onClose={onClose}
    >
      <Alert color="yellow" role="status">
        It is shown this once. If it is lost, revoke the key and create another.
      </Alert>
      <Copyable title="Token" label="token" text={apiKey.token} />
      <Copyable
        title="Try it"
        label="curl"
        text={`curl "${AUDIT_LOG_URL}?start=${start}&end=${end}" \\\n  -H "Authorization: Bearer ${apiKey.token}"`}
      />
      <Checkbox
        label="I have stored the token where the application finds it"
        checked={isStored}
        onChange={({ currentTarget: { checked } }) => setIsStored(checked)}
      />
      <div className="row end">
        <Button disabled={!isStored} onClick={onClose}>Close</Button>
      </div>
    </KeyDialog>
  );
}

interface DialogProps {
  title: string;
  /** Whether only what is inside may close it: nothing is lost by a slip of the finger. */
  isBusy: boolean;
  /** What happens to who leaves the page meanwhile, if something does. */
  warning?: string | undefined;
  onClose: () => void;
  children: ReactNode;
}

function KeyDialog({ title, isBusy, warning, onClose, children }: DialogProps) {
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
            <div className="row">
              <Button size="compact-sm" onClick={leaving.reset}>Stay</Button>
              <Button size="compact-sm" variant="default" onClick={leaving.proceed}>
                Leave without it
              </Button>
            </div>
          </Alert>
        )}
        {children}
      </Stack>
    </Modal>
  );
}

interface FormDialogProps<T> extends Omit<DialogProps, "isBusy"> {
  action: string;
  /** What the button says meanwhile. */
  busy: string;
  color?: string;
  work: UseMutationResult<T, Error, void>;
  /** What may be so when no answer comes. */
  ifUnknown: string;
  isDisabled?: boolean;
  /** Returns whether what was filled in is right. */
  onSubmit?: () => boolean;
}

/** A dialog with a form, which is sent once, however often it is submitted before the answer. */
function FormDialog<T>(
  { action, busy, color, work, ifUnknown, isDisabled = false, onSubmit, children, ...dialog }:
    FormDialogProps<T>,
) {
  // Known at once, unlike the state: a second click in the same moment must not take the answer's place.
  const isSent = useRef(false);
  function submit(event: FormEvent) {
    event.preventDefault();
    if (isDisabled || isSent.current || onSubmit?.() === false) return;
    isSent.current = true;
    work.mutate(undefined, { onSettled: () => void (isSent.current = false) });
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
          <div className="row end">
            <Button variant="default" disabled={isPending} onClick={dialog.onClose}>Cancel</Button>
            <Button type="submit" disabled={isDisabled} {...color ? { color } : {}}>
              {isPending ? busy : action}
            </Button>
          </div>
        </Stack>
      </form>
    </KeyDialog>
  );
}
