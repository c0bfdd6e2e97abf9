import type { Session } from "@supabase/auth-js";
import { NativeSelect, TextInput } from "@mantine/core";
import { useInputState } from "@mantine/hooks";
import { TextButton } from "../shared/parts.tsx";
import { auth } from "../shared/transport.ts";
import { AuthForm, CODE } from "./auth_form.tsx";
import { signOut } from "./session.ts";
import { Page } from "./sign_in.tsx";
import { settle } from "./sign_in_with.ts";

/** Asks for the code of the person's second factor. Without it, the database refuses every call. */
export function SecondFactor({ session }: { session: Session }) {
  const factors = (session.user.factors ?? [])
    .filter((factor) => factor.status === "verified" && factor.factor_type === "totp");
  const [factorId, setFactorId] = useInputState(factors[0]?.id ?? "");
  return (
    <Page>
      {factors.length === 0
        ? (
          <p>
            This console knows authenticator apps only, and your account has another second factor.
            Ask the people who run this service to let you in.
          </p>
        )
        : (
          <AuthForm
            text={`Type the code that your authenticator app shows for ${session.user.email}.`}
            action="Verify"
            onSubmit={async (field) =>
              settle(await auth.mfa.challengeAndVerify({ factorId, code: field("code") }))}
          >
            {factors.length > 1 && (
              <NativeSelect
                label="App"
                data={factors.map(({ id, friendly_name }) => ({
                  value: id,
                  label: friendly_name || id,
                }))}
                value={factorId}
                onChange={setFactorId}
              />
            )}
            <TextInput {...CODE} />
          </AuthForm>
        )}
      <TextButton onClick={() => void signOut("local")}>Sign in as somebody else</TextButton>
    </Page>
  );
}
