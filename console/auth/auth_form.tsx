import { Button, Stack } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import type { FormEvent, ReactNode } from "react";
import { Failure } from "../shared/parts.tsx";

type Fields = Record<"email" | "password" | "code" | "domain", string>;

export interface AuthFormProps {
  action: string;
  onSubmit: (fields: Fields) => Promise<void>;
  children: ReactNode;
}

/** A form of a few fields and one button. */
export function AuthForm({ action, onSubmit, children }: AuthFormProps) {
  const attempt = useMutation({ mutationFn: onSubmit });
  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const text = (name: keyof Fields) => String(form.get(name) ?? "").trim();
    if (attempt.isPending) return;
    attempt.mutate({
      email: text("email"),
      password: String(form.get("password") ?? ""),
      code: text("code"),
      domain: text("domain"),
    });
  }
  return (
    <form onSubmit={submit}>
      <Stack gap="md">
        {children}
        <Failure error={attempt.error} />
        {/* Never disabled: a press while the page is busy must not get lost. */}
        <Button type="submit" fullWidth aria-busy={attempt.isPending}>
          {attempt.isPending ? "One moment …" : action}
        </Button>
      </Stack>
    </form>
  );
}

/** The field of a code that was sent, or that an app shows. */
export const CODE = {
  label: "Code",
  name: "code",
  autoComplete: "one-time-code",
  inputMode: "numeric",
  required: true,
  autoFocus: true,
} as const;
