import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { Button, Form } from "react-aria-components";
import { type ApiKey, revokeApiKey } from "./data.ts";
import { Message, ModalDialog, TextField } from "./ui.tsx";

export interface RevokeKeyProps {
  apiKey: ApiKey;
  onClose: () => void;
  onRevoked: () => void;
}

/** Asks for the key's name before it revokes it. */
export function RevokeKey({ apiKey, onClose, onRevoked }: RevokeKeyProps) {
  const [typed, setTyped] = useState("");
  const isConfirmed = typed.trim() === apiKey.name.trim();
  const revocation = useMutation({
    mutationFn: () => revokeApiKey(apiKey.id),
    onSuccess: onRevoked,
  });
  return (
    <ModalDialog title={`Revoke “${apiKey.name}”?`} role="alertdialog" onClose={onClose}>
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
          label={`Type its name to confirm: ${apiKey.name}`}
          value={typed}
          onChange={setTyped}
          autoComplete="off"
          autoFocus
        />
        {revocation.error && (
          <Message kind="error">{revocation.error.message} Revoking twice does no harm.</Message>
        )}
        <div className="actions">
          <Button className="button" onPress={onClose}>Cancel</Button>
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
