import { Anchor, Stack } from "@mantine/core";
import { useOrganization } from "../data/organizations.ts";
import { useKept } from "../data/seals.ts";
import { count } from "../shared/days.ts";
import { Answer, Head, Lead } from "../shared/parts.tsx";
import { DOCUMENTATION } from "../shared/transport.ts";

export default function Settings() {
  const organization = useOrganization();
  const kept = useKept(organization.id);
  return (
    <>
      <Head title="Settings" />
      <Answer query={kept} what="the settings">
        {({ keep_days, hold_reason }) => (
          <Stack gap="lg">
            <section>
              <h2>Retention</h2>
              <p>
                {keep_days === null
                  ? "Entries are kept for ever."
                  : `Entries are deleted after ${count(keep_days, "day")}.`}
              </p>
            </section>
            <section>
              <h2>Hold</h2>
              <p>
                {hold_reason === null ? "There is no hold." : (
                  <>
                    On hold: nothing is deleted. <bdi>{hold_reason}</bdi>
                  </>
                )}
              </p>
            </section>
            <Lead>
              Only the people who run this service can change the retention of{" "}
              <bdi>{organization.name}</bdi>, and set or end a hold.
            </Lead>
            <section>
              <h2>Documentation</h2>
              <Anchor href={DOCUMENTATION} inherit>Read the log from an application</Anchor>
            </section>
          </Stack>
        )}
      </Answer>
    </>
  );
}
