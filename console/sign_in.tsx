import { Alert, Anchor, Button, PasswordInput, Stack, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { Failure } from "./parts.tsx";
import { resetPassword, sendRecoveryCode, signIn } from "./session.ts";

type Step = "sign in" | "ask for a code" | "set a password";

const EMAIL = {
  label: "E-mail",
  name: "email",
  type: "email",
  autoComplete: "username",
  required: true,
  autoFocus: true,
};

export function SignIn({ reason }: { reason: string }) {
  const [step, setStep] = useState<Step>("sign in");
  const [email, setEmail] = useState("");
  return (
    <main className="sign-in">
      <title>Sign in – Audit log</title>
      <h1>Audit log</h1>
      {reason && step === "sign in" && <Alert color="yellow" role="status">{reason}</Alert>}
      {step === "sign in" && (
        <Step
          key={step}
          action="Sign in"
          onSubmit={(form) => signIn(form.email, form.password)}
        >
          <TextInput {...EMAIL} defaultValue={email} />
          <PasswordInput
            label="Password"
            name="password"
            autoComplete="current-password"
            required
          />
        </Step>
      )}
      {step === "ask for a code" && (
        <Step
          key={step}
          action="Send code"
          onSubmit={async (form) => {
            await sendRecoveryCode(form.email);
            setEmail(form.email);
            setStep("set a password");
          }}
        >
          <p>You get a message with a code, with which you set a new password.</p>
          <TextInput {...EMAIL} />
        </Step>
      )}
      {step === "set a password" && (
        <Step
          key={step}
          action="Set password"
          onSubmit={({ code, password }) => resetPassword({ email, code, password })}
        >
          <p role="status">If {email} has an account here, a code is on its way.</p>
          <TextInput label="Code" name="code" autoComplete="one-time-code" required autoFocus />
          <PasswordInput
            label="New password"
            name="password"
            autoComplete="new-password"
            minLength={6}
            required
          />
        </Step>
      )}
      <Anchor
        component="button"
        type="button"
        size="sm"
        onClick={() => setStep(step === "sign in" ? "ask for a code" : "sign in")}
      >
        {step === "sign in" ? "Forgot your password?" : "Back to sign-in"}
      </Anchor>
    </main>
  );
}

type Fields = Record<"email" | "password" | "code", string>;

interface StepProps {
  action: string;
  onSubmit: (fields: Fields) => Promise<void>;
  children: React.ReactNode;
}

/** A form of a few fields and one button. */
function Step({ action, onSubmit, children }: StepProps) {
  const attempt = useMutation({ mutationFn: onSubmit });
  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const text = (name: string) => String(form.get(name) ?? "");
    if (!attempt.isPending) {
      attempt.mutate({ email: text("email"), password: text("password"), code: text("code") });
    }
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
