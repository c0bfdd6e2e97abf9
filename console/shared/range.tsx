import {
  Button,
  Group,
  Popover,
  SegmentedControl,
  Stack,
  Text,
  TextInput,
  VisuallyHidden,
} from "@mantine/core";
import { type FormEvent, lazy, Suspense, useState } from "react";
import * as z from "zod/mini";
import { type Days, isDay, type Preset, presetDays, TIME_ZONE, type Zone } from "./days.ts";
import { Icon } from "./icons.tsx";
import { Hint } from "./parts.tsx";
import styles from "./range.module.css";

// The choice of days: a preset, which moves with the calendar, or two fixed days.

/** Only for those who open it: it brings a library of dates with it. */
const Calendar = lazy(() => import("./calendar.tsx"));

const DEFAULT_PRESET: Preset = "7d";
const PRESET_NAMES = {
  today: "Today",
  "7d": "7 days",
  "30d": "30 days",
  "90d": "90 days",
} as const satisfies Record<Preset, string>;
const PRESETS = Object.keys(PRESET_NAMES) as Preset[];

const DAY = z.catch(z.optional(z.string().check(z.refine(isDay))), undefined);

/** How a range stands in the address. */
export const RANGE = {
  range: z.catch(z.optional(z.enum(PRESETS)), undefined),
  start: DAY,
  end: DAY,
};

export interface RangeAddress {
  range?: Preset | undefined;
  start?: string | undefined;
  end?: string | undefined;
}

export function daysOf({ range, start, end }: RangeAddress, preset = DEFAULT_PRESET): Days {
  return start && end && start <= end ? { start, end } : presetDays(range ?? preset);
}

export interface RangePickerProps {
  address: RangeAddress;
  preset?: Preset;
  /** What is shown instead of the days. */
  label?: string | false | undefined;
  onChange: (address: Required<RangeAddress>) => void;
  /** In which times are shown, where there are any. */
  zone?: Zone;
  onZone?: (zone: Zone) => void;
}

/** The one control of days and time zone. */
export function RangePicker(props: RangePickerProps) {
  const { address, preset = DEFAULT_PRESET, label, onChange, zone = "utc", onZone } = props;
  const days = daysOf(address, preset);
  const isFixed = address.start === days.start && address.end === days.end;
  const chosen = isFixed ? null : address.range ?? preset;
  const [isOpen, setIsOpen] = useState(false);
  const submit = (range: Required<RangeAddress>) => {
    setIsOpen(false);
    onChange(range);
  };
  const text = days.start === days.end ? days.start : `${days.start} – ${days.end}`;
  return (
    <Popover opened={isOpen} onChange={setIsOpen} trapFocus returnFocus position="bottom-start">
      <Popover.Target>
        <Button
          className={styles.button ?? ""}
          variant="default"
          leftSection={<Icon name="calendar" />}
          aria-expanded={isOpen}
          onClick={() =>
            setIsOpen(!isOpen)}
        >
          <VisuallyHidden>Days</VisuallyHidden> {label || text}
          <Text span inherit c="dimmed" ml={8}>{zone === "utc" ? "UTC" : "local time"}</Text>
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <Group gap={4} mb="sm">
          {PRESETS.map((range) => (
            <Button
              key={range}
              size="compact-sm"
              variant={chosen === range && !label ? "light" : "default"}
              aria-pressed={chosen === range && !label}
              onClick={() => submit({ range, start: undefined, end: undefined })}
            >
              {PRESET_NAMES[range]}
            </Button>
          ))}
        </Group>
        <DaysForm
          key={`${days.start} ${days.end}`}
          days={days}
          onSubmit={(days) =>
            submit({ range: undefined, ...days })}
        />
        {onZone && (
          <SegmentedControl
            aria-label={`Times, local being ${TIME_ZONE}`}
            size="xs"
            fullWidth
            mt="sm"
            data={[
              { value: "utc", label: "UTC" },
              { value: "local", label: "Local time" },
            ]}
            value={zone}
            onChange={(value) => onZone(value === "local" ? "local" : "utc")}
          />
        )}
      </Popover.Dropdown>
    </Popover>
  );
}

interface DaysFormProps {
  days: Days;
  onSubmit: (days: Days) => void;
}

/** Nothing is asked of the server before both days are whole and the form is sent. */
function DaysForm({ days, onSubmit }: DaysFormProps) {
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
    <Stack component="form" gap="xs" maw="min(300px, calc(100vw - 64px))" onSubmit={submit}>
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
      <Suspense fallback={<div className={styles.calendar} />}>
        <Calendar
          start={isDay(start) ? start : null}
          end={isDay(end) ? end : null}
          onChange={(start, end) => {
            setStart(start);
            setEnd(end);
          }}
        />
      </Suspense>
      <Group justify="space-between" gap="xs">
        <Hint>Days are UTC, both included.</Hint>
        <Button type="submit" size="compact-sm">Show</Button>
      </Group>
    </Stack>
  );
}

function explainDay(text: string): string {
  return isDay(text) ? "" : "A day is YYYY-MM-DD";
}
