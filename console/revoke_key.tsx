import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { Button, Form } from "react-aria-components";
import { type ApiKey, type Organization, RequestError, revokeApiKey } from "./data.ts";
import { Message, ModalDialog, TextField } from "./ui.tsx";

export interface RevokeKeyProps {
  organization: Organization;
  apiKey: ApiKey;
  /** Called when it has been revoked, or may have been. */
  onChange: () => void;
  onRevoked: () => void;
  onClose: () => void;
}

/** Asks for the key's name before it revokes it. */
export function RevokeKey(
  { organization, apiKey, onChange, onRevoked, onClose }: RevokeKeyProps,
) {
  const [typed, setTyped] = useState("");
  const isConfirmed = normalized(typed) === normalized(apiKey.name);
  const revocation = useMutation({
    mutationFn: () => revokeApiKey(organization.id, apiKey.id),
    onSuccess: onRevoked,
    onSettled: onChange,
  });
  return (
    <ModalDialog
      title={
        <>
          Revoke “<bdi>{apiKey.name}</bdi>”?
        </>
      }
      role="alertdialog"
      onClose={revocation.isPending ? undefined : onClose}
    >
      <Form
        onSubmit={(event) => {
          event.preventDefault();
          if (isConfirmed && !revocation.isPending) revocation.mutate();
        }}
      >
        <p>
          Whatever uses <code>{apiKey.hint}</code>{" "}
          stops at once: its requests get 401. This cannot be undone.
        </p>
        <TextField
          label={
            <>
              Type its name to confirm: <bdi>{apiKey.name}</bdi>
            </>
          }
          value={typed}
          onChange={setTyped}
          autoComplete="off"
          autoFocus
        />
        {revocation.error && <Message kind="error">{explainError(revocation.error)}</Message>}
        <div className="actions">
          <Button className="button" onPress={onClose} isDisabled={revocation.isPending}>
            Cancel
          </Button>
          <Button
            className="button danger solid"
            type="submit"
            isDisabled={!isConfirmed}
          >
            {revocation.isPending ? "Revoking …" : "Revoke key"}
          </Button>
        </div>
      </Form>
    </ModalDialog>
  );
}

/** A name as it looks: spaces in a row are shown as one, and an accent may be typed in two ways. */
function normalized(name: string): string {
  return name.trim().replace(/\s+/g, " ").normalize("NFC");
}

function explainError(error: Error): string {
  return error instanceof RequestError && error.isOutcomeUnknown
    ? `${error.message} The key may be revoked all the same; trying again does no harm.`
    : error.message;
}
