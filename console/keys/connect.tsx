import { Anchor, Button, Group, NativeSelect, Stack, TextInput } from "@mantine/core";
import { useInputState } from "@mantine/hooks";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useOrganization } from "../data/organizations.ts";
import { Copyable } from "../shared/copy.tsx";
import { Hint } from "../shared/parts.tsx";
import { type Collector, COLLECTORS, store, TOKEN_FILE } from "./collectors.ts";

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
      {collector && <Steps key={chosen} collector={collector} />}
    </>
  );
}

function Push() {
  const navigate = useNavigate();
  const { id: organizationId } = useOrganization();
  return (
    <Group justify="space-between">
      <span>A stream delivers the log by itself. It needs no key, and you run nothing.</span>
      <Button
        onClick={() => navigate({ to: "/$organizationId/streams/new", params: { organizationId } })}
      >
        Create a stream
      </Button>
    </Group>
  );
}

function Steps({ collector }: { collector: Collector }) {
  const { fields, secret, hint, page, command } = collector;
  const [values, setValues] = useState<Record<string, string>>({});
  const isFilled = fields.every(({ name, pattern }) => pattern.test(values[name] ?? ""));
  return (
    <>
      <Hint>
        {hint}{" "}
        <Anchor href={`./docs/${page}.html`} target="_blank" inherit underline="always">
          Documentation (new tab)
        </Anchor>
      </Hint>
      {fields.map(({ name, label, example, pattern }) => (
        <TextInput
          key={name}
          label={label}
          placeholder={example}
          value={values[name] ?? ""}
          error={values[name] && !pattern.test(values[name]) && `As in ${example}`}
          onChange={({ currentTarget: { value } }) =>
            setValues((before) => ({ ...before, [name]: value.trim() }))}
        />
      ))}
      <Step
        title="Store the token"
        hint="Run this where the application runs, paste the token, and press Enter and Ctrl-D."
        text={store(TOKEN_FILE)}
      />
      {secret && (
        <Step
          title={`Store the ${secret.label}`}
          hint={secret.hint}
          text={secret.store}
        />
      )}
      {isFilled
        ? <Step title="Run" hint="In the same folder." text={command(values)} />
        : <Hint>Fill in the fields above to see the command.</Hint>}
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
