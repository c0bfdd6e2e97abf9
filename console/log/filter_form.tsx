import { Autocomplete, Button, Checkbox, Group, Stack, TextInput } from "@mantine/core";
import { useDebouncedValue, useInputState } from "@mantine/hooks";
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { type Action, personsQuery, useActions } from "../data/entries.ts";
import { useOrganization } from "../data/organizations.ts";
import { actionName, Failure } from "../shared/parts.tsx";
import { actionsOf, type Filter } from "../shared/search_params.ts";
import { visible } from "../../common/visible.ts";

/** How many actions one query may name. */
const MAX_ACTIONS = 20;
/** More actions than this do not fit without a search. */
const ACTIONS_IN_SIGHT = 6;

interface FilterFormProps {
  filter: Filter;
  onSubmit: (filter: Required<Filter>) => void;
}

export default function FilterForm({ filter, onSubmit }: FilterFormProps) {
  const organization = useOrganization();
  const client = useQueryClient();
  const [person, setPerson] = useState(filter.user_email ?? "");
  const [object, setObject] = useInputState(filter.object ?? "");
  const [refusal, setRefusal] = useState("");
  const [actions, setActions] = useState(actionsOf(filter));
  const [prefix] = useDebouncedValue(person.trim(), 150);
  const persons = useQuery({
    ...personsQuery(organization.id, prefix),
    enabled: prefix !== "",
    placeholderData: keepPreviousData,
  });

  /** A person whom the log does not name would look like one who did nothing. */
  async function submit(event: FormEvent) {
    event.preventDefault();
    const typed = person.trim();
    const chosen = {
      action: actions.join(",") || undefined,
      user_email: typed || undefined,
      object: object || undefined,
    };
    if (typed === "" || typed === filter.user_email) return onSubmit(chosen);
    const found = await client.fetchQuery(personsQuery(organization.id, typed))
      .catch((error: Error) => setRefusal(error.message));
    if (!found) return;
    const exact = found.find((found) => found.toLowerCase() === typed.toLowerCase());
    const [first, ...others] = found;
    if (exact || (first && others.length === 0)) {
      onSubmit({ ...chosen, user_email: exact ?? first });
    } else if (first) setRefusal("Several addresses begin with this. Choose one.");
    else setRefusal("No entry is by a person whose address begins with this.");
  }
  return (
    <Stack component="form" gap="sm" onSubmit={(event) => void submit(event)}>
      <Autocomplete
        size="xs"
        label="Person"
        description="The beginning of an e-mail address."
        placeholder="ada@example.com"
        inputMode="email"
        spellCheck={false}
        autoFocus
        openOnFocus={false}
        data={prefix && persons.data ? persons.data : []}
        renderOption={({ option }) => visible(option.value)}
        // The database has chosen them.
        filter={({ options }) => options}
        comboboxProps={{ withinPortal: false }}
        error={refusal || persons.error?.message}
        value={person}
        onChange={(value) => {
          setPerson(value);
          setRefusal("");
        }}
      />
      <TextInput
        size="xs"
        label="About"
        description="An id or another value that entries show, exactly as it is."
        spellCheck={false}
        value={object}
        onChange={setObject}
      />
      <Actions chosen={actions} onChange={setActions} />
      <Group justify="flex-end">
        <Button type="submit" variant="filled">Show</Button>
      </Group>
    </Stack>
  );
}

function Actions({ chosen, onChange }: { chosen: string[]; onChange: (codes: string[]) => void }) {
  const { data: catalogue = [], error } = useActions();
  const [text, setText] = useInputState("");
  const unknown = chosen.filter((code) => !catalogue.some((action) => action.code === code));
  const all: Action[] = [
    ...unknown.map((code) => ({ code, description: "", deprecated_at: null })),
    ...catalogue.filter(({ deprecated_at }) => !deprecated_at),
    ...catalogue.filter(({ deprecated_at }) => deprecated_at),
  ];
  const words = text.toLowerCase().split(/\s+/);
  const shown = all.filter(({ code, description }) => {
    const searched = `${code} ${actionName(code)} ${description}`.toLowerCase();
    return words.every((word) => searched.includes(word));
  });
  return (
    <Checkbox.Group label="Actions" value={chosen} onChange={onChange}>
      <Failure error={error} />
      {all.length > ACTIONS_IN_SIGHT && (
        <TextInput
          aria-label="Find an action"
          placeholder="Find an action"
          mt={4}
          value={text}
          onChange={setText}
        />
      )}
      <Stack gap={8} mt={8} mah={264} p={2} style={{ overflowY: "auto" }}>
        {shown.map(({ code, description, deprecated_at }) => (
          <Checkbox
            key={code}
            size="xs"
            value={code}
            label={actionName(code)}
            description={deprecated_at ? `Deprecated. ${description}` : description}
            disabled={chosen.length >= MAX_ACTIONS && !chosen.includes(code)}
          />
        ))}
        {shown.length === 0 && "No action has these words."}
      </Stack>
    </Checkbox.Group>
  );
}
