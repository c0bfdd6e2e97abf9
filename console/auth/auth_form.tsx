import { Button, Stack } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import type { FormEvent, ReactNode } from "react";
import { Failure } from "../shared/parts.tsx";

export interface AuthFormProps {
  text?: ReactNode;
  action: string;
  /** `field` reads a field of the form. */
  onSubmit: (field: (name: "email" | "password" | "code" | "domain") => string) => Promise<unknown>;
  children: ReactNode;
}

export function AuthForm({ text, action, onSubmit, children }: AuthFormProps) {
  const attempt = useMutation({ mutationFn: onSubmit });
  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    if (attempt.isPending) return;
    attempt.mutate((name) => {
      const text = String(form.get(name) ?? "");
      return name === "password" ? text : text.trim();
    });
  }
  return (
    <form onSubmit={submit}>
      <Stack>
        {text && <p role="status">{text}</p>}
        {children}
        <Failure error={attempt.error} />
        {/* Not disabled, because a press while the page is busy would get lost. */}
        <Button type="submit" variant="filled" fullWidth aria-busy={attempt.isPending}>
          {attempt.isPending ? "One moment …" : action}
        </Button>
      </Stack>
    </form>
  );
}

export const CODE = {
  label: "Code",
  name: "code",
  autoComplete: "one-time-code",
  inputMode: "numeric",
  required: true,
  autoFocus: true,
} as const;
