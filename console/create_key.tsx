import { useMutation } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { Button, Form } from "react-aria-components";
import {
  AUDIT_LOG_URL,
  createApiKey,
  type NewApiKey,
  type Organization,
  RequestError,
} from "./data.ts";
import { daysAgo } from "./days.ts";
import { Copyable, Message, ModalDialog, takeFocus, TextField } from "./ui.tsx";

const MAX_NAME_LENGTH = 100;

export interface CreateKeyProps {
  organization: Organization;
  /** Called when a key has been made, or may have been. */
  onChange: () => void;
  onClose: () => void;
}

/** Asks for a name, then shows the token: once, and only here. */
export function CreateKey({ organization, onChange, onClose }: CreateKeyProps) {
  // One for the whole dialog, so that trying again after a lost answer cannot make a second key.
  const [id] = useState(() => crypto.randomUUID());
  const creation = useMutation({
    mutationFn: (name: string) => createApiKey(organization.id, name, id),
    onSettled: () => {
      isAsked.current = false;
      onChange();
    },
  });
  // Known at once, unlike the state: a second click in the same moment must not take the answer's place.
  const isAsked = useRef(false);
  useLeaving(onClose);
  const apiKey = creation.data;
  return (
    <ModalDialog
      title={apiKey
        ? (
          <>
            Copy the token of “<bdi>{apiKey.name}</bdi>” now
          </>
        )
        : "Create an API key"}
      // Neither an answer on its way nor a token is lost by a slip of the finger.
      onClose={apiKey || creation.isPending ? undefined : onClose}
    >
      {apiKey ? <Token apiKey={apiKey} onClose={onClose} /> : (
        <Form
          onSubmit={(event) => {
            event.preventDefault();
            if (isAsked.current) return;
            isAsked.current = true;
            creation.mutate(String(new FormData(event.currentTarget).get("name")));
          }}
        >
          <p>It will read the whole log of {organization.name}, and nothing else.</p>
          <TextField
            label="Name, by which you will know it"
            name="name"
            autoComplete="off"
            autoFocus
            validate={explainName}
          />
          {creation.error && <Message kind="error">{explainError(creation.error)}</Message>}
          <div className="actions">
            <Button className="button" onPress={onClose} isDisabled={creation.isPending}>
              Cancel
            </Button>
            <Button className="button primary" type="submit">
              {creation.isPending ? "Creating …" : "Create key"}
            </Button>
          </div>
        </Form>
      )}
    </ModalDialog>
  );
}

function Token({ apiKey, onClose }: { apiKey: NewApiKey; onClose: () => void }) {
  const query = `start=${daysAgo(6)}&end=${daysAgo(0)}`;
  return (
    <div className="token" tabIndex={-1} ref={takeFocus}>
      <Message kind="warning">
        This is the only time that it is shown. Nobody can look it up later: if it is lost, revoke
        the key and create another.
      </Message>
      <Copyable label="Token" text={apiKey.token} />
      <Copyable
        label="Try it"
        text={`curl "${AUDIT_LOG_URL}?${query}" \\\n  -H "Authorization: Bearer ${apiKey.token}"`}
      />
      <div className="actions">
        <Button className="button primary" onPress={onClose}>
          I have stored it: close
        </Button>
      </div>
    </div>
  );
}

/** Closes also when the page is left: the browser's Back would show it as it was. */
function useLeaving(onClose: () => void): void {
  useEffect(() => {
    addEventListener("pagehide", onClose);
    return () => removeEventListener("pagehide", onClose);
  }, [onClose]);
}

/** What one can say before the database does, which has more rules and explains them. */
function explainName(name: string): string | null {
  const { length } = [...name.trim().normalize("NFC")];
  if (length === 0) return "A name is needed, not only spaces.";
  return length > MAX_NAME_LENGTH
    ? `At most ${MAX_NAME_LENGTH} characters; this has ${length}.`
    : null;
}

function explainError(error: Error): string {
  return error instanceof RequestError && error.isOutcomeUnknown
    ? `${error.message} The key may have been made all the same; trying again here makes no second one.`
    : error.message;
}
