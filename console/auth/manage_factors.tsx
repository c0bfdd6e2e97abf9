import { Box, Button, Group, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Copyable } from "../shared/copy.tsx";
import { dayOf } from "../shared/days.ts";
import { Dialog } from "../shared/dialog.tsx";
import { Failure, Hint, Loading } from "../shared/parts.tsx";
import { auth } from "../shared/transport.ts";
import { AuthForm, CODE } from "./auth_form.tsx";
import { settle } from "./sign_in_with.ts";

const KEY = ["factors"];

export default function ManageFactors({ onClose }: { onClose: () => void }) {
  const client = useQueryClient();
  const refresh = () => client.invalidateQueries({ queryKey: KEY });
  const factors = useQuery({
    queryKey: KEY,
    queryFn: async () => settle(await auth.mfa.listFactors()).totp,
  });
  const enrolment = useMutation({
    mutationFn: async () => {
      const friendlyName = `added ${new Date().toISOString().slice(0, 19).replace("T", " ")} UTC`;
      return settle(await auth.mfa.enroll({ factorType: "totp", friendlyName }));
    },
  });
  const removal = useMutation({
    mutationFn: async (factorId: string) => settle(await auth.mfa.unenroll({ factorId })),
    onSettled: refresh,
  });
  /** The factor that a person is asked about before it goes. */
  const [leaving, setLeaving] = useState("");
  const added = enrolment.data;
  return (
    <Dialog title="Second factor" isBusy={false} onClose={onClose}>
      <Failure error={factors.error ?? enrolment.error ?? removal.error} />
      {factors.isPending && <Loading what="your factors" />}
      {factors.data?.length === 0 && !added && (
        <p>
          You have no second factor yet. With one, you also type a code from an app on your phone
          when you sign in. If you lose the phone, ask the people who run this service to let you in
          again.
        </p>
      )}
      {factors.data?.map(({ id, friendly_name, created_at }) => (
        <Group key={id} justify="space-between">
          <div>
            Authenticator app
            <Hint>{friendly_name || `added ${dayOf(created_at)}`}</Hint>
          </div>
          <Group gap="xs" ml="auto">
            {leaving === id && (
              <Button
                variant="filled"
                color="red"
                onClick={() => removal.mutate(id)}
              >
                Remove it for good
              </Button>
            )}
            {/* One button, so that a second press by mistake takes the first back. It keeps the focus. */}
            <Button
              onClick={() =>
                setLeaving(leaving === id ? "" : id)}
            >
              {leaving === id ? "Keep it" : "Remove"}
            </Button>
          </Group>
        </Group>
      ))}
      {added
        ? (
          <AuthForm
            text="Scan this with your authenticator app, or copy the key into it. Then type its code."
            action="Add"
            onSubmit={async (field) => {
              const answer = { factorId: added.id, code: field("code") };
              settle(await auth.mfa.challengeAndVerify(answer));
              enrolment.reset();
              await refresh();
            }}
          >
            {/* A camera needs four light squares around the code, also on a dark page, and squares of some pixels. */}
            <Box
              component="img"
              src={added.totp.qr_code}
              alt="The key as a QR code"
              w={320}
              maw="100%"
              p={24}
              bg="white"
            />
            <Copyable title="Key" text={added.totp.secret} />
            <TextInput {...CODE} />
          </AuthForm>
        )
        : (
          <Group justify="flex-end">
            <Button variant="filled" onClick={() => enrolment.mutate()}>Add an app</Button>
          </Group>
        )}
    </Dialog>
  );
}
