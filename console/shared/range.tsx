import {
  Alert,
  Box,
  Button,
  Group,
  Input,
  Stack,
  Text,
  TextInput,
  VisuallyHidden,
} from "@mantine/core";
import { type FormEvent, lazy, useState } from "react";
import { type Days, formatDays, isDay, type Preset, PRESETS } from "./days.ts";
import { Dropdown, Late } from "./dropdown.tsx";
import { Hint } from "./parts.tsx";
import { daysOf, DEFAULT_PRESET, explainDays, type Range } from "./search_params.ts";
import { loaded } from "./transport.ts";
import { visible } from "../../supabase/functions/_shared/visible.ts";

/** Loaded when the form opens, because it needs a library of dates. */
const Calendar = lazy(() => loaded(import("./calendar.tsx")));

const PRESET_NAMES = Object.keys(PRESETS) as Preset[];

interface RangePickerProps {
  search: Range;
  preset?: Preset;
  /** Replaces the days on the button. */
  label?: string | false | undefined;
  onChange: (range: Required<Range>) => void;
}

export function RangePicker(props: RangePickerProps) {
  const { search, preset = DEFAULT_PRESET, label, onChange } = props;
  const days = daysOf(search, preset);
  const isFixed = search.start === days.start && search.end === days.end;
  const chosen = isFixed || label ? null : search.range ?? preset;
  const mistake = explainDays(search);
  return (
    <>
      <Dropdown
        icon="calendar"
        label={
          <>
            <VisuallyHidden>Days</VisuallyHidden> {label || formatDays(days)}
            <Text span inherit c="dimmed" ml={8}>UTC</Text>
          </>
        }
      >
        {(close) => (
          <>
            <Box
              display="grid"
              mb="sm"
              maw="min(360px, calc(100vw - 64px))"
              style={{ gridTemplateColumns: "repeat(auto-fit, minmax(80px, 1fr))", gap: 4 }}
            >
              {PRESET_NAMES.map((range) => (
                <Button
                  key={range}
                  size="compact-sm"
                  px={4}
                  variant={chosen === range ? "light" : "default"}
                  aria-pressed={chosen === range}
                  onClick={() => {
                    close();
                    onChange({ range, start: undefined, end: undefined });
                  }}
                >
                  {PRESETS[range].name}
                </Button>
              ))}
            </Box>
            <DaysForm
              days={days}
              onChange={(days, isSent) => {
                if (isSent) close();
                onChange({ range: undefined, ...days });
              }}
            />
          </>
        )}
      </Dropdown>
      {/* Below all of the toolbar. */}
      {mistake && (
        <Alert color="yellow" role="alert" w="100%" style={{ order: 1 }}>
          {visible(mistake)} You see {formatDays(days)}.
        </Alert>
      )}
    </>
  );
}

interface DaysFormProps {
  days: Days;
  /** Called at each press of a day, and when the form is sent. */
  onChange: (days: Days, isSent: boolean) => void;
}

function DaysForm({ days, onChange }: DaysFormProps) {
  const [mistake, setMistake] = useState("");
  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const [start = "", end = ""] = form.getAll("day").map((day) => String(day).trim());
    if (!isDay(start) || !isDay(end)) setMistake("Type real days as YYYY-MM-DD");
    else if (end < start) setMistake("The last day is before the first");
    else onChange({ start, end }, true);
  }
  return (
    <form onSubmit={submit}>
      <Stack gap="xs" maw="min(360px, calc(100vw - 64px))">
        {/* Anew after a press in the calendar. */}
        <Group key={formatDays(days)} grow gap="xs">
          {(["start", "end"] as const).map((name) => (
            <TextInput
              key={name}
              name="day"
              label={name === "start" ? "First day" : "Last day"}
              data-autofocus={name === "start" || undefined}
              maxLength={10}
              defaultValue={days[name]}
              error={mistake !== ""}
              onFocus={({ currentTarget }) => currentTarget.select()}
            />
          ))}
        </Group>
        {mistake && <Input.Error role="alert">{mistake}</Input.Error>}
        <Late height={260}>
          <Calendar days={days} onChange={(days) => onChange(days, false)} />
        </Late>
        <Group justify="space-between" gap="xs" wrap="nowrap">
          <Hint>Pick the first, then the last day. Days are those of UTC.</Hint>
          <Button type="submit" variant="filled" flex="none">Show</Button>
        </Group>
      </Stack>
    </form>
  );
}
