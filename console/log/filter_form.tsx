import { Button, Group, Stack, TextInput } from "@mantine/core";
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

export function FilterForm({ filter, onSubmit }: FilterFormProps) {
  const organization = useOrganization();
  const client = useQueryClient();
  const [person, setPerson] = useInputState(filter.user_email ?? "");
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
    <Stack component="form" gap="sm" onSubmit={(event) => void submit(event)}>
      <TextInput
        label="Person"
        description="The beginning of an e-mail address."
        placeholder="ada@example.com"
        inputMode="email"
        spellCheck={false}
        list="persons"
        error={refusal || persons.error?.message}
        value={person}
        onChange={(event) => {
          setPerson(event);
          setRefusal("");
        }}
      />
      <datalist id="persons">
        {/* The browser would show a text as it is, also one that looks like another. */}
        {prefix && persons.data?.filter((email) => visible(email) === email)
          .map((email) => <option key={email} value={email} />)}
      </datalist>
      <TextInput
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
