import {
  Box,
  Button,
  Group,
  SegmentedControl,
  Stack,
  Text,
  TextInput,
  VisuallyHidden,
} from "@mantine/core";
import { CatchBoundary } from "@tanstack/react-router";
import { type FormEvent, lazy, Suspense, useState } from "react";
import {
  type Days,
  formatDays,
  isDay,
  type Preset,
  PRESETS,
  TIME_ZONE,
  type Zone,
} from "./days.ts";
import { Dropdown } from "./dropdown.tsx";
import { Broken, Hint } from "./parts.tsx";
import { daysOf, DEFAULT_PRESET, type Range } from "./search.ts";
import { loaded } from "./transport.ts";

/** Loaded when the form opens, because it needs a library of dates. */
const Calendar = lazy(() => loaded(import("./calendar.tsx")));

const PRESET_NAMES = Object.keys(PRESETS) as Preset[];

export interface RangePickerProps {
  search: Range;
  preset?: Preset;
  /** Replaces the days on the button. */
  label?: string | false | undefined;
  onChange: (range: Required<Range>) => void;
  zone?: Zone;
  /** If it is there, the person can choose a time zone. */
  onZone?: (zone: Zone) => void;
}

export function RangePicker(props: RangePickerProps) {
  const { search, preset = DEFAULT_PRESET, label, onChange, zone = "utc", onZone } = props;
  const days = daysOf(search, preset);
  const isFixed = search.start === days.start && search.end === days.end;
  const chosen = isFixed || label ? null : search.range ?? preset;
  return (
    <Dropdown
      icon="calendar"
      label={
        <>
          <VisuallyHidden>Days</VisuallyHidden> {label || formatDays(days)}
          <Text span inherit c="dimmed" ml={8}>{zone === "utc" ? "UTC" : "local time"}</Text>
        </>
      }
    >
      {(close) => {
        const submit = (range: Required<Range>) => {
          close();
          onChange(range);
        };
        return (
          <>
            <Group gap={4} mb="sm" maw="calc(100vw - 64px)">
              {PRESET_NAMES.map((range) => (
                <Button
                  key={range}
                  size="compact-sm"
                  variant={chosen === range ? "light" : "default"}
                  aria-pressed={chosen === range}
                  onClick={() => submit({ range, start: undefined, end: undefined })}
                >
                  {PRESETS[range].name}
                </Button>
              ))}
            </Group>
            <DaysForm days={days} onSubmit={(days) => submit({ range: undefined, ...days })} />
            {onZone && (
              <SegmentedControl<Zone>
                aria-label={`Time zone: UTC, or local time in ${TIME_ZONE}`}
                size="xs"
                fullWidth
                mt="sm"
                data={[{ value: "utc", label: "UTC" }, { value: "local", label: "Local time" }]}
                value={zone}
                onChange={onZone}
              />
            )}
          </>
        );
      }}
    </Dropdown>
  );
}

function DaysForm({ days, onSubmit }: { days: Days; onSubmit: (days: Days) => void }) {
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
    if (!startError && !endError) onSubmit({ start, end });
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
      <CatchBoundary getResetKey={() => 0} errorComponent={Broken}>
        <Suspense fallback={<Box h={260} />}>
          <Calendar
            start={isDay(start) ? start : null}
            end={isDay(end) ? end : null}
            onChange={(start, end) => {
              setStart(start);
              setEnd(end);
            }}
          />
        </Suspense>
      </CatchBoundary>
      <Group justify="space-between" gap="xs">
        <Hint>Days are UTC, both included.</Hint>
        <Button type="submit" variant="filled">Show</Button>
      </Group>
    </Stack>
  );
}

function explainDay(text: string): string {
  return isDay(text) ? "" : "Type a real day as YYYY-MM-DD";
}
