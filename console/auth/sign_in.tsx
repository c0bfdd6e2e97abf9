import {
  Alert,
  Anchor,
  Button,
  Divider,
  Group,
  Paper,
  PasswordInput,
  Stack,
  TextInput,
} from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { Failure, Lead } from "../shared/parts.tsx";
import { AuthForm, CODE } from "./auth_form.tsx";
import { type Provider, useMethods } from "./methods.ts";
import { resetPassword } from "./session.ts";
import styles from "./sign_in.module.css";
import {
  sendCode,
  sendRecoveryCode,
  signInWithCode,
  signInWithDomain,
  signInWithPassword,
  signInWithProvider,
} from "./sign_in_with.ts";

type Step =
  | "sign in"
  | "ask for a code"
  | "type the code"
  | "forgotten"
  | "set a password"
  | "domain";

const EMAIL = {
  label: "E-mail",
  name: "email",
  type: "email",
  autoComplete: "username",
  required: true,
  autoFocus: true,
};

export function SignIn({ reason }: { reason: string }) {
  const methods = useMethods();
  const [chosen, setStep] = useState<Step>("sign in");
  const [email, setEmail] = useState("");
  // Without passwords, the code comes first.
  const step = chosen === "sign in" && !methods.password && methods.code
    ? "ask for a code"
    : chosen;
  const isFirst = chosen === "sign in";
  const sent = <p role="status">If {email} has an account here, a code is on its way.</p>;
  return (
    <Page>
      {reason && isFirst && <Alert color="yellow" role="status">{reason}</Alert>}
      {isFirst && (
        <Stack gap="xs">
          {methods.providers.map((provider) => <With key={provider.id} provider={provider} />)}
          {methods.saml && (
            <Button variant="default" fullWidth onClick={() => setStep("domain")}>
              Continue with single sign-on
            </Button>
          )}
          {(methods.providers.length > 0 || methods.saml) && (methods.password || methods.code) && (
            <Divider label="or" />
          )}
        </Stack>
      )}
      {step === "sign in" && methods.password && (
        <AuthForm
          key={step}
          action="Sign in"
          onSubmit={({ email, password }) => signInWithPassword(email, password)}
        >
          <TextInput {...EMAIL} defaultValue={email} />
          <PasswordInput
            label="Password"
            name="password"
            autoComplete="current-password"
            required
          />
        </AuthForm>
      )}
      {(step === "ask for a code" || step === "forgotten") && (
        <AuthForm
          key={step}
          action="Send code"
          onSubmit={async ({ email }) => {
            await (step === "forgotten" ? sendRecoveryCode(email) : sendCode(email));
            setEmail(email);
            setStep(step === "forgotten" ? "set a password" : "type the code");
          }}
        >
          <p>
            You get a message with a code, with which you{" "}
            {step === "forgotten" ? "set a new password" : "sign in"}.
          </p>
          <TextInput {...EMAIL} defaultValue={email} />
        </AuthForm>
      )}
      {step === "type the code" && (
        <AuthForm
          key={step}
          action="Sign in"
          onSubmit={({ code }) => signInWithCode(email, code)}
        >
          {sent}
          <TextInput {...CODE} />
        </AuthForm>
      )}
      {step === "domain" && (
        <AuthForm
          key={step}
          action="Continue"
          onSubmit={({ domain }) => signInWithDomain(domain.replace(/^.*@/, ""))}
        >
          <p>Your organization's identity provider is found by its domain.</p>
          <TextInput
            label="Domain, or your e-mail address"
            name="domain"
            placeholder="example.com"
            required
            autoFocus
          />
        </AuthForm>
      )}
      {step === "set a password" && (
        <AuthForm
          key={step}
          action="Set password"
          onSubmit={({ code, password }) => resetPassword({ email, code, password })}
        >
          {sent}
          <TextInput {...CODE} />
          <PasswordInput
            label="New password"
            name="password"
            autoComplete="new-password"
            minLength={6}
            required
          />
        </AuthForm>
      )}
      {isFirst && methods.password && (
        <>
          {methods.code && (
            <Other onClick={() => setStep("ask for a code")}>E-mail me a code instead</Other>
          )}
          <Other onClick={() => setStep("forgotten")}>Forgot your password?</Other>
        </>
      )}
      {!isFirst && <Other onClick={() => setStep("sign in")}>Back to sign-in</Other>}
    </Page>
  );
}

/** The frame of what one sees before one is in. */
export function Page({ children }: { children: ReactNode }) {
  return (
    <main className={styles.page}>
      <title>Sign in – Audit log</title>
      <Paper withBorder radius="lg" shadow="sm" p="xl">
        <Stack gap="md">
          <Group gap="sm">
            <img src="./icon.svg" alt="" width={28} height={28} />
            <h1>Audit log</h1>
          </Group>
          <Lead>See who did what in your organization.</Lead>
          {children}
        </Stack>
      </Paper>
    </main>
  );
}

export function Other({ onClick, children }: { onClick: () => void; children: ReactNode }) {
  return (
    <Anchor component="button" type="button" size="sm" onClick={onClick}>
      {children}
    </Anchor>
  );
}

function With({ provider: { id, name } }: { provider: Provider }) {
  const attempt = useMutation({ mutationFn: () => signInWithProvider(id) });
  return (
    <>
      <Button variant="default" fullWidth onClick={() => attempt.mutate()}>
        Continue with {name}
      </Button>
      <Failure error={attempt.error} />
    </>
  );
}
