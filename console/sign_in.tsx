import { useMutation } from "@tanstack/react-query";
import { Button, Form } from "react-aria-components";
import { signIn } from "./session.ts";
import { Message, TextField } from "./ui.tsx";

export function SignIn({ reason }: { reason: string }) {
  const attempt = useMutation({
    mutationFn: (form: FormData) => signIn(String(form.get("email")), String(form.get("password"))),
  });
  return (
    <main className="sign-in">
      <h1>Audit log console</h1>
      <p>For administrators: API keys and the log of your organization.</p>
      {reason && !attempt.error && <Message kind="warning">{reason}</Message>}
      <Form
        onSubmit={(event) => {
          event.preventDefault();
          if (!attempt.isPending) attempt.mutate(new FormData(event.currentTarget));
        }}
      >
        <TextField
          label="E-mail"
          name="email"
          type="email"
          autoComplete="username"
          isRequired
          autoFocus
        />
        <TextField
          label="Password"
          name="password"
          type="password"
          autoComplete="current-password"
          isRequired
        />
        {attempt.error && <Message kind="error">{attempt.error.message}</Message>}
        <Button className="button primary" type="submit">
          {attempt.isPending ? "Signing in …" : "Sign in"}
        </Button>
      </Form>
    </main>
  );
}
