import { Alert, Box, Button, Group, Stack, Text, TextInput, VisuallyHidden } from "@mantine/core";
import { type FormEvent, lazy, useState } from "react";
import { type Days, formatDays, isDay, type Preset, PRESETS } from "./days.ts";
import { Dropdown, Late } from "./dropdown.tsx";
import { Hint } from "./parts.tsx";
import { daysOf, DEFAULT_PRESET, explainDays, likelyDays, type Range } from "./search_params.ts";
import { loaded } from "./transport.ts";
import { visible } from "../../seals/visible.ts";

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
  const control = (
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
  );
  const mistake = explainDays(search);
  if (!mistake) return control;
  const likely = likelyDays(search);
  return (
    <>
      {control}
      {/* Below all of the toolbar. */}
      <Alert color="yellow" role="alert" w="100%" p="xs" style={{ order: 1 }}>
        <Group gap="xs">
          <span>{visible(mistake)} You see {formatDays(days)}.</span>
          <Button
            size="compact-sm"
            onClick={() => onChange({ range: undefined, ...likely ?? days })}
          >
            {likely ? `Show ${formatDays(likely)}` : "Keep these days"}
          </Button>
        </Group>
      </Alert>
    </>
  );
}

interface DaysFormProps {
  days: Days;
  /** Called at each press of a day, and when the form is sent. */
  onChange: (days: Days, isSent: boolean) => void;
}

function DaysForm({ days, onChange }: DaysFormProps) {
  const [start, setStart] = useState(days.start);
  const [end, setEnd] = useState(days.end);
  const [isSent, setIsSent] = useState(false);
  const startError = explainDay(start);
  const endError = explainDay(end) || (!startError && end < start && "Before the first day");
  const fields = [
    { label: "First day", value: start, error: startError, set: setStart },
    { label: "Last day", value: end, error: endError, set: setEnd },
  ];
  function submit(event: FormEvent) {
    event.preventDefault();
    setIsSent(true);
    if (!startError && !endError) onChange({ start, end }, true);
  }
  return (
    <Stack component="form" gap="xs" maw="min(360px, calc(100vw - 64px))" onSubmit={submit}>
      <Group grow align="flex-start" gap="xs">
        {fields.map(({ label, value, error, set }, index) => (
          <TextInput
            key={label}
            label={label}
            data-autofocus={index === 0 || undefined}
            maxLength={10}
            value={value}
            error={isSent && error}
            onFocus={({ currentTarget }) => currentTarget.select()}
            onChange={({ currentTarget: { value } }) => set(value.trim())}
          />
        ))}
      </Group>
      <Late height={260}>
        <Calendar
          start={isDay(start) ? start : null}
          end={isDay(end) ? end : null}
          onChange={(days) => {
            setStart(days.start);
            setEnd(days.end);
            onChange(days, false);
          }}
        />
      </Late>
      <Group justify="space-between" gap="xs" wrap="nowrap">
        <Hint>Press a day, then perhaps another: all days between, in UTC.</Hint>
        <Button type="submit" variant="filled" flex="none">Show</Button>
      </Group>
    </Stack>
  );
}

function explainDay(text: string): string {
  return isDay(text) ? "" : "Type a real day as YYYY-MM-DD";
}
