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
import { addDays, count, formatRelative, isDay, presetDays, today } from "./days.ts";
import { Copyable, DIALOG, Failure } from "./parts.tsx";

const MAX_NAME_LENGTH = 100;

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
      createApiKey(organization.id, { id, name, expiresAt: expiresAt(lifetime, lastDay) }),
    onSettled: onChange,
  });
  const submit = useSubmitOnce(creation);
  const nameError = explainName(name);
  const dayError = lifetime === "day" ? explainLastDay(lastDay) : "";
  if (creation.data) return <Token apiKey={creation.data} onClose={onClose} />;
  return (
    <KeyDialog title="Create an API key" isBusy={creation.isPending} onClose={onClose}>
      <form
        noValidate
        onSubmit={(event) => {
          setIsSent(true);
          submit(event, !nameError && !dayError);
        }}
      >
        <Stack gap="md">
          <TextInput
            label="Name"
            description="The application that gets it. It cannot be changed later."
            data-autofocus
            autoComplete="off"
            value={name}
            error={isSent && nameError}
            onChange={({ currentTarget: { value } }) => setName(value)}
          />
          <Select
            label="Expires"
            data={LIFETIMES}
            value={lifetime}
            allowDeselect={false}
            onChange={(value) => setLifetime(value ?? "365")}
          />
          {lifetime === "day" && (
            <TextInput
              label="Last day (UTC)"
              placeholder="YYYY-MM-DD"
              autoComplete="off"
              maxLength={10}
              value={lastDay}
              error={isSent && dayError}
              onChange={({ currentTarget: { value } }) => setLastDay(value.trim())}
            />
          )}
          <Failure error={explained(creation.error, MAY_BE_MADE)} />
          <Actions
            isBusy={creation.isPending}
            action="Create key"
            busy="Creating …"
            onClose={onClose}
          />
        </Stack>
      </form>
    </KeyDialog>
  );
}

const MAY_BE_MADE =
  "The key may have been made all the same; trying again here makes no second one.";

function expiresAt(lifetime: string, lastDay: string): string | null {
  if (lifetime === "never") return null;
  if (lifetime === "day") return `${addDays(lastDay, 1)}T00:00:00Z`;
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
  return day < today() ? "That day is over" : "";
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
    mutationFn: () => rotateApiKey(organization.id, { id: apiKey.id, successorId, overlap }),
    onSettled: onChange,
  });
  const submit = useSubmitOnce(rotation);
  if (rotation.data) return <Token apiKey={rotation.data} onClose={onClose} />;
  return (
    <KeyDialog
      title={
        <>
          Rotate “<bdi>{apiKey.name}</bdi>”
        </>
      }
      isBusy={rotation.isPending}
      onClose={onClose}
    >
      <form onSubmit={(event) => submit(event, true)}>
        <Stack gap="md">
          <p>
            You get a new key of the same name and lifetime. Give it to the application before the
            old one, <code>{apiKey.hint}</code>, ends.
          </p>
          <Select
            label="The old key ends"
            data={OVERLAPS}
            value={overlap}
            allowDeselect={false}
            onChange={(value) => setOverlap(value ?? "24 hours")}
          />
          <Failure error={explained(rotation.error, MAY_BE_MADE)} />
          <Actions
            isBusy={rotation.isPending}
            action="Rotate key"
            busy="Rotating …"
            onClose={onClose}
          />
        </Stack>
      </form>
    </KeyDialog>
  );
}

export interface RevokeKeyProps extends RotateKeyProps {
  use: Use[];
  onRevoked: () => void;
}

/** Says what revoking will break, and asks for the key's name. */
export function RevokeKey(
  { organization, apiKey, use, onChange, onRevoked, onClose }: RevokeKeyProps,
) {
  const [typed, setTyped] = useState("");
  const isConfirmed = normalized(typed) === normalized(apiKey.name);
  const revocation = useMutation({
    mutationFn: () => revokeApiKey(organization.id, apiKey.id),
    onSuccess: onRevoked,
    onSettled: onChange,
  });
  const submit = useSubmitOnce(revocation);
  return (
    <KeyDialog
      title={
        <>
          Revoke “<bdi>{apiKey.name}</bdi>”?
        </>
      }
      isBusy={revocation.isPending}
      onClose={onClose}
    >
      <form onSubmit={(event) => submit(event, isConfirmed)}>
        <Stack gap="md">
          <Alert color={apiKey.last_used_at ? "yellow" : "gray"}>{explainUse(apiKey, use)}</Alert>
          <p>
            From then on every request with <code>{apiKey.hint}</code>{" "}
            gets 401. This cannot be undone.
          </p>
          <TextInput
            label={
              <>
                Type its name to confirm: <bdi>{apiKey.name}</bdi>
              </>
            }
            data-autofocus
            autoComplete="off"
            value={typed}
            onChange={({ currentTarget: { value } }) => setTyped(value)}
          />
          <Failure
            error={explained(
              revocation.error,
              "The key may be revoked all the same; trying again does no harm.",
            )}
          />
          <Actions
            isBusy={revocation.isPending}
            isDisabled={!isConfirmed}
            color="red"
            action="Revoke key"
            busy="Revoking …"
            onClose={onClose}
          />
        </Stack>
      </form>
    </KeyDialog>
  );
}

/** What will break: who uses the key, as far as its use tells. */
function explainUse({ last_used_at }: ApiKey, use: Use[]): string {
  if (!last_used_at) return "It has never been used.";
  const ofToday = use.find(({ day }) => day === today());
  const from = use.findLast(({ last_address }) => last_address)?.last_address;
  return `Last used ${formatRelative(last_used_at)}, ${
    count(ofToday?.requests ?? 0, "request")
  } today` +
    `${from ? `, last from ${from}` : ""}. Whatever uses it stops.`;
}

/** A name as it looks: spaces in a row are shown as one, and an accent may be typed in two ways. */
function normalized(name: string): string {
  return name.trim().replace(/\s+/g, " ").normalize("NFC");
}

interface TokenProps {
  apiKey: NewApiKey;
  onClose: () => void;
}

/** Shows a token: once, and only here. Nothing but the confirmed button closes it. */
function Token({ apiKey, onClose }: TokenProps) {
  const [isStored, setIsStored] = useState(false);
  const leaving = useBlocker({
    shouldBlockFn: () => true,
    enableBeforeUnload: true,
    withResolver: true,
  });
  // The browser's Back would show the page as it was left.
  useEffect(() => {
    addEventListener("pagehide", onClose);
    return () => removeEventListener("pagehide", onClose);
  }, [onClose]);
  const { start, end } = presetDays("7d");
  return (
    <KeyDialog
      title={
        <>
          Copy the token of “<bdi>{apiKey.name}</bdi>” now
        </>
      }
      isBusy
      onClose={onClose}
    >
      <Stack gap="md">
        {leaving.status === "blocked" && (
          <Alert color="red" role="alert" title="If you leave now, the token is lost">
            <div className="row">
              <Button size="compact-sm" onClick={leaving.reset}>Stay</Button>
              <Button size="compact-sm" variant="default" onClick={leaving.proceed}>
                Leave without it
              </Button>
            </div>
          </Alert>
        )}
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
      </Stack>
    </KeyDialog>
  );
}

interface DialogProps {
  title: ReactNode;
  /** Whether only what is inside may close it: nothing is lost by a slip of the finger. */
  isBusy: boolean;
  onClose: () => void;
  children: ReactNode;
}

function KeyDialog({ title, isBusy, onClose, children }: DialogProps) {
  return (
    <Modal
      opened
      onClose={onClose}
      title={title}
      size="lg"
      {...DIALOG}
      closeOnClickOutside={!isBusy}
      closeOnEscape={!isBusy}
      withCloseButton={!isBusy}
    >
      {children}
    </Modal>
  );
}

interface ActionsProps {
  action: string;
  busy: string;
  isBusy: boolean;
  isDisabled?: boolean;
  color?: string;
  onClose: () => void;
}

function Actions({ action, busy, isBusy, isDisabled = false, color, onClose }: ActionsProps) {
  return (
    <div className="row end">
      <Button variant="default" disabled={isBusy} onClick={onClose}>Cancel</Button>
      <Button type="submit" disabled={isDisabled} {...color ? { color } : {}}>
        {isBusy ? busy : action}
      </Button>
    </div>
  );
}

/** Sends a form once, however often it is submitted before the answer. */
function useSubmitOnce<T>({ mutate }: UseMutationResult<T, Error, void>) {
  // Known at once, unlike the state: a second click in the same moment must not take the answer's place.
  const isSent = useRef(false);
  return (event: FormEvent, isValid: boolean) => {
    event.preventDefault();
    if (!isValid || isSent.current) return;
    isSent.current = true;
    mutate(undefined, { onSettled: () => void (isSent.current = false) });
  };
}

function explained(error: Error | null, ifUnknown: string): Error | null {
  return error instanceof RequestError && error.isOutcomeUnknown
    ? new Error(`${error.message} ${ifUnknown}`)
    : error;
}
