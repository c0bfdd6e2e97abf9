import { Alert, Button, Group, TextInput } from "@mantine/core";
import type { FormEvent, ReactNode } from "react";
import { formatDays, type Preset, PRESETS } from "./days.ts";
import { daysOf, DEFAULT_PRESET, explainDays, type Range } from "./search_params.ts";
import { visible } from "../../supabase/functions/_shared/visible.ts";

const PRESET_NAMES = Object.keys(PRESETS) as Preset[];

interface RangePickerProps {
  search: Range;
  preset?: Preset;
  onChange: (range: Required<Range>) => void;
  children?: ReactNode;
}

/** Chooses a preset, or a first and a last day. The browser sees to it that they are days. */
export function RangePicker(props: RangePickerProps) {
  const { search, preset = DEFAULT_PRESET, onChange, children } = props;
  const days = daysOf(search, preset);
  const isFixed = search.start === days.start && search.end === days.end;
  const chosen = isFixed ? null : search.range ?? preset;
  const mistake = explainDays(search);
  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    const typed = new FormData(event.currentTarget).getAll("day").map(String).sort();
    const [start = days.start, end = days.end] = typed;
    onChange({ range: undefined, start, end });
  }
  return (
    <Group gap="xs">
      <Group gap={4} role="group" aria-label="Days">
        {PRESET_NAMES.map((range) => (
          <Button
            key={range}
            px={8}
            variant={chosen === range ? "light" : "subtle"}
            color={chosen === range ? "blue" : "gray"}
            aria-pressed={chosen === range}
            onClick={() => onChange({ range, start: undefined, end: undefined })}
          >
            {PRESETS[range].name}
          </Button>
        ))}
      </Group>
      {/* Anew when others are chosen. */}
      <form key={formatDays(days)} onSubmit={submit}>
        <Group gap={4}>
          {([["From", days.start], ["To", days.end]] as const)
            .map(([label, day]) => (
              <TextInput
                key={label}
                type="date"
                name="day"
                aria-label={label}
                title={label}
                required
                min="1000-01-01"
                max="9999-12-31"
                defaultValue={day}
                styles={{ input: { paddingInline: 5 } }}
              />
            ))}
          <Button type="submit" px={8}>Apply</Button>
        </Group>
      </form>
      {children}
      {mistake && (
        <Alert color="yellow" role="alert" w="100%">
          {visible(mistake)} You see {formatDays(days)}.
        </Alert>
      )}
    </Group>
  );
}
