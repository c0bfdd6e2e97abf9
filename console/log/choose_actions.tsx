import { Checkbox, Stack, TextInput } from "@mantine/core";
import { useInputState } from "@mantine/hooks";
import { useActions } from "../data/entries.ts";
import { actionName, Failure } from "../shared/parts.tsx";

/** How many actions one query may name. */
const MAX_ACTIONS = 20;
/** More actions than this do not fit without a search. */
const ACTIONS_IN_SIGHT = 6;

interface ChooseActionsProps {
  chosen: string[];
  onChange: (codes: string[]) => void;
}

export function ChooseActions({ chosen, onChange }: ChooseActionsProps) {
  const { data: catalogue = [], error } = useActions();
  const [text, setText] = useInputState("");
  const unknown = chosen.filter((code) => !catalogue.some((action) => action.code === code));
  const all = [
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
