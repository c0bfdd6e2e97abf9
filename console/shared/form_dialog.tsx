import { Button, Group, Stack } from "@mantine/core";
import { useNetwork } from "@mantine/hooks";
import { useQueryClient } from "@tanstack/react-query";
import type { FormEvent, ReactNode } from "react";
import { Dialog } from "./dialog.tsx";
import { Failure } from "./parts.tsx";

export interface FormDialogProps {
  title: string;
  action: string;
  colour?: "blue" | "red";
  work: { error: Error | null; isPending: boolean };
  isDisabled?: boolean;
  loss?: string;
  onSubmit: () => void;
  onClose: () => void;
  children: ReactNode;
}

/** A dialog with a form. It sends the form once, however often a person submits it meanwhile. */
export function FormDialog({ title, action, colour = "blue", work, ...props }: FormDialogProps) {
  const { isDisabled = false, loss, onSubmit, onClose, children } = props;
  const { online } = useNetwork();
  const submit = useSubmit(onSubmit);
  const { error, isPending } = work;
  return (
    <Dialog title={title} isBusy={isPending} {...loss && { loss }} onClose={onClose}>
      <form onSubmit={submit}>
        <Stack>
          {children}
          <Failure error={error} />
          <Group justify="flex-end" gap="xs">
            <Button disabled={isPending} onClick={onClose}>Cancel</Button>
            <Button type="submit" variant="filled" color={colour} disabled={isDisabled || !online}>
              {isPending ? "One moment …" : online ? action : "You are offline"}
            </Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}

/** Sends a form, unless something is being changed. */
export function useSubmit(onSubmit: () => void): (event: FormEvent) => void {
  const client = useQueryClient();
  return (event) => {
    event.preventDefault();
    // Asks the client, because a mutation does not know yet of a click in the same moment.
    if (client.isMutating() === 0) onSubmit();
  };
}
