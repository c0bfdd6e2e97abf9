import { Button, Group, Popover, SegmentedControl, TextInput, VisuallyHidden } from "@mantine/core";
import { type FormEvent, lazy, Suspense, useState } from "react";
import * as z from "zod/mini";
import { type Days, isDay, isPreset, type Preset, presetDays } from "./days.ts";

// The choice of days: a preset, which moves with the calendar, or two fixed days.

/** Only for those who open it: it brings a library of dates with it. */
const Calendar = lazy(() => import("./calendar.tsx"));

const DEFAULT_PRESET: Preset = "7d";
const PRESET_NAMES = [
  { value: "today", label: "Today" },
  { value: "7d", label: "7 days" },
  { value: "30d", label: "30 days" },
  { value: "90d", label: "90 days" },
];

const DAY = z.catch(z.optional(z.string().check(z.refine(isDay))), undefined);

/** How a range stands in the address. */
export const RANGE = {
  range: z.catch(z.optional(z.enum(["today", "7d", "30d", "90d"])), undefined),
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
  onChange: (address: Required<RangeAddress>) => void;
}

export function RangePicker({ address, preset = DEFAULT_PRESET, onChange }: RangePickerProps) {
  const days = daysOf(address, preset);
  const isFixed = address.start === days.start && address.end === days.end;
  const [isOpen, setIsOpen] = useState(false);
  return (
    <div className="row">
      <SegmentedControl
        aria-label="Days"
        size="xs"
        data={PRESET_NAMES}
        value={isFixed ? "" : address.range ?? preset}
        onChange={(value) =>
          isPreset(value) && onChange({ range: value, start: undefined, end: undefined })}
      />
      <Popover opened={isOpen} onChange={setIsOpen} trapFocus returnFocus position="bottom-start">
        <Popover.Target>
          <Button
            size="xs"
            variant="default"
            aria-expanded={isOpen}
            onClick={() => setIsOpen(!isOpen)}
          >
            <VisuallyHidden>Days</VisuallyHidden>
            {days.start === days.end ? days.start : `${days.start} – ${days.end}`}
          </Button>
        </Popover.Target>
        <Popover.Dropdown>
          <DaysForm
            key={`${days.start} ${days.end}`}
            days={days}
            onSubmit={(days) => {
              setIsOpen(false);
              onChange({ range: undefined, ...days });
            }}
          />
        </Popover.Dropdown>
      </Popover>
    </div>
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
    <form className="days" onSubmit={submit}>
      <Group grow align="flex-start" gap="xs">
        {fields.map(({ label, value, error, set }, index) => (
          <TextInput
            key={label}
            label={label}
            size="xs"
            data-autofocus={index === 0 || undefined}
            maxLength={10}
            value={value}
            error={isSent && error}
            onFocus={({ currentTarget }) => currentTarget.select()}
            onChange={({ currentTarget: { value } }) => set(value.trim())}
          />
        ))}
      </Group>
      <Suspense fallback={<div className="calendar" />}>
        <Calendar
          start={isDay(start) ? start : null}
          end={isDay(end) ? end : null}
          onChange={(start, end) => {
            setStart(start);
            setEnd(end);
          }}
        />
      </Suspense>
      <div className="row between">
        <span className="hint">Days are UTC, both included.</span>
        <Button type="submit" size="xs">Show</Button>
      </div>
    </form>
  );
}

function explainDay(text: string): string {
  return isDay(text) ? "" : "A day is YYYY-MM-DD";
}
