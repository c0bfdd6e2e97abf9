import {
  Alert,
  Anchor,
  Box,
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
import { Failure, Lead, TextButton } from "../shared/parts.tsx";
import { auth, DOCUMENTATION } from "../shared/transport.ts";
import { AuthForm, type AuthFormProps, CODE } from "./auth_form.tsx";
import { useMethods } from "./methods.ts";
import { resetPassword } from "./session.ts";
import {
  sendCode,
  sendResetCode,
  settle,
  signInWithDomain,
  signInWithProvider,
} from "./sign_in_with.ts";

type Step = "sign in" | "ask for code" | "type code" | "forgotten" | "set password" | "domain";

export function SignIn({ reason }: { reason: string }) {
  const methods = useMethods();
  const [chosen, setStep] = useState<Step>("sign in");
  const [email, setEmail] = useState("");
  const leaving = useMutation({ mutationFn: signInWithProvider });
  const isFirst = chosen === "sign in";
  // Without passwords, the code comes first.
  const step = isFirst && !methods.password && methods.code ? "ask for code" : chosen;
  const hasOthers = methods.providers.length > 0 || methods.saml;
  const emailField = (
    <TextInput
      label="E-mail"
      name="email"
      type="email"
      autoComplete="username"
      value={email}
      onChange={({ currentTarget: { value } }) => setEmail(value)}
      required
      autoFocus
    />
  );
  const askForCode = (send: typeof sendCode, next: Step, purpose: string): AuthFormProps => ({
    action: "Send code",
    onSubmit: async () => {
      await send(email);
      setStep(next);
    },
    text: `You get a message with a code to ${purpose}.`,
    children: emailField,
  });
  const sent = `If ${email} has an account here, a code is on its way.`;
  const forms: Record<Step, AuthFormProps> = {
    "sign in": {
      action: "Sign in",
      onSubmit: async (field) => {
        const person = { email: field("email"), password: field("password") };
        settle(await auth.signInWithPassword(person));
      },
      children: (
        <>
          {emailField}
          <PasswordInput
            label="Password"
            name="password"
            autoComplete="current-password"
            required
          />
        </>
      ),
    },
    "ask for code": askForCode(sendCode, "type code", "sign in"),
    "type code": {
      action: "Sign in",
      // Supabase Lite refuses the type `email`. Auth takes both.
      onSubmit: async (field) =>
        settle(await auth.verifyOtp({ email, token: field("code"), type: "magiclink" })),
      text: sent,
      children: <TextInput {...CODE} />,
    },
    forgotten: askForCode(sendResetCode, "set password", "set a new password"),
    "set password": {
      action: "Set password",
      onSubmit: (field) => resetPassword(email, field("code"), field("password")),
      text: sent,
      children: (
        <>
          <TextInput {...CODE} />
          <PasswordInput
            label="New password"
            name="password"
            autoComplete="new-password"
            minLength={6}
            required
          />
        </>
      ),
    },
    domain: {
      action: "Continue",
      onSubmit: (field) => signInWithDomain(field("domain")),
      text: "Type the domain that your organization's identity provider knows.",
      children: (
        <TextInput
          label="Domain, or your e-mail address"
          name="domain"
          placeholder="example.com"
          required
          autoFocus
        />
      ),
    },
  };
  return (
    <Page>
      {reason && isFirst && <Alert color="yellow" role="status">{reason}</Alert>}
      {(step !== "sign in" || methods.password) && <AuthForm key={step} {...forms[step]} />}
      {isFirst && methods.password && (
        <>
          {methods.code && (
            <TextButton onClick={() => setStep("ask for code")}>
              E-mail me a code instead
            </TextButton>
          )}
          <TextButton onClick={() => setStep("forgotten")}>Forgot your password?</TextButton>
        </>
      )}
      {isFirst && hasOthers && (
        // Below the form, which would otherwise move while a person types.
        <Stack gap="xs">
          {(methods.password || methods.code) && <Divider label="or" />}
          {methods.providers.map(({ id, name }) => (
            <Button
              key={id}
              fullWidth
              onClick={() => leaving.mutate(id)}
            >
              Continue with {name}
            </Button>
          ))}
          <Failure error={leaving.error} />
          {methods.saml && (
            <Button fullWidth onClick={() => setStep("domain")}>
              Continue with single sign-on
            </Button>
          )}
        </Stack>
      )}
      {forms[step].text === sent && (
        <TextButton onClick={() => setStep(step === "type code" ? "ask for code" : "forgotten")}>
          Send another code
        </TextButton>
      )}
      {!isFirst && <TextButton onClick={() => setStep("sign in")}>Back to sign-in</TextButton>}
      {isFirst && <Anchor href={DOCUMENTATION} fz="inherit">Documentation</Anchor>}
    </Page>
  );
}

/** The page around the forms that a person sees before the console. */
export function Page({ children }: { children: ReactNode }) {
  return (
    <Box component="main" mih="100vh" px="md" pt="12vh" bg="var(--soft)">
      <title>Sign in – Audit log</title>
      <Paper withBorder radius="lg" shadow="sm" p="xl" w="100%" maw={440} mx="auto">
        <Stack>
          <Group gap="sm">
            <img src="./icon.svg" alt="" width={28} height={28} />
            <h1>Audit log</h1>
          </Group>
          <Lead>See who did what in your organization.</Lead>
          {children}
        </Stack>
      </Paper>
    </Box>
  );
}
