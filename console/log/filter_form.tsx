import { Autocomplete, Button, Group, Stack, TextInput } from "@mantine/core";
import { useDebouncedValue, useInputState } from "@mantine/hooks";
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { personsQuery } from "../data/entries.ts";
import { useOrganization } from "../data/organizations.ts";
import { actionsOf, type Filter } from "../shared/search_params.ts";
import { visible } from "../../supabase/functions/_shared/visible.ts";
import { ChooseActions } from "./choose_actions.tsx";

interface FilterFormProps {
  filter: Filter;
  onSubmit: (filter: Required<Filter>) => void;
}

/**
 * Where suggestions are, and when they close: after a press, because that moves what is below them. Combobox passes all
 * of it on to Popover, but its type does not have the events.
 */
const SUGGESTIONS = { withinPortal: false, clickOutsideEvents: ["click"] };

export function FilterForm({ filter, onSubmit }: FilterFormProps) {
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
      // A paste often has a space too many. A link may name a value that has one.
      object: (object === filter.object ? object : object.trim()) || undefined,
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
    <Stack
      component="form"
      gap="sm"
      onSubmit={(event) => void submit(event)}
      // When their field loses the focus, the suggestions close, too.
      onMouseDown={(event) => {
        const { target } = event;
        const isField = target instanceof HTMLInputElement && target.type !== "checkbox";
        if (!isField) event.preventDefault();
      }}
    >
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
        comboboxProps={SUGGESTIONS}
        // They move the next field down, and never cover it.
        styles={{ dropdown: { position: "static" } }}
        error={refusal || persons.error?.message}
        value={person}
        onChange={(value) => {
          setPerson(value);
          setRefusal("");
        }}
      />
      <TextInput
        size="xs"
        label="Target or value"
        description="An id or another value that entries show, exactly as it is, with its capitals."
        spellCheck={false}
        value={object}
        onChange={setObject}
      />
      <ChooseActions chosen={actions} onChange={setActions} />
      <Group justify="flex-end">
        <Button type="submit" variant="filled">Apply</Button>
      </Group>
    </Stack>
  );
}
