import { Anchor, Button, Group, NativeSelect, Stack } from "@mantine/core";
import { useInputState } from "@mantine/hooks";
import { useNavigate } from "@tanstack/react-router";
import { useOrganization } from "../data/organizations.ts";
import { Copyable } from "../shared/copy.tsx";
import { Hint } from "../shared/parts.tsx";
import { type Collector, COLLECTORS, STORE_TOKEN } from "./collectors.ts";

const PUSH = "A stream: nothing to run";

/** Shows what to run so that an application reads with a key. The token itself stands in none of it. */
export function Connect() {
  const [chosen, setChosen] = useInputState("curl");
  const collector = COLLECTORS.find(({ name }) => name === chosen);
  return (
    <>
      <NativeSelect
        label="Connect"
        data={[PUSH, ...COLLECTORS.map(({ name }) => name)]}
        value={chosen}
        onChange={setChosen}
      />
      {chosen === PUSH && <Push />}
      {collector && <Steps collector={collector} />}
    </>
  );
}

function Push() {
  const navigate = useNavigate();
  const { id: organizationId } = useOrganization();
  return (
    <Group justify="space-between">
      <span>
        A stream delivers the log by itself, to whatever has a public address. It needs no key, and
        you run nothing.
      </span>
      <Button
        onClick={() => navigate({ to: "/$organizationId/streams/new", params: { organizationId } })}
      >
        Create a stream
      </Button>
    </Group>
  );
}

function Steps({ collector }: { collector: Collector }) {
  const { hint, page, command } = collector;
  return (
    <>
      <Hint>
        {hint}{" "}
        <Anchor href={`./docs/${page}.html`} target="_blank" inherit underline="always">
          Documentation (new tab)
        </Anchor>
      </Hint>
      <Step
        title="Store the token"
        hint="Run this where the application runs, paste the token, and press Enter and Ctrl-D."
        text={STORE_TOKEN}
      />
      <Step title="Run" hint="In the same folder." text={command} />
    </>
  );
}

function Step({ title, hint, text }: { title: string; hint: string; text: string }) {
  return (
    <Stack gap={4}>
      <Copyable title={title} text={text} />
      <Hint>{hint}</Hint>
    </Stack>
  );
}
