import "@mantine/dates/styles.css";
import { DatePicker } from "@mantine/dates";
import { useState } from "react";
import { type Days, today } from "./days.ts";

/** A press chooses a day. The next press chooses all days between the two. */
export default function Calendar(
  { days, onChange }: { days: Days; onChange: (days: Days) => void },
) {
  const [first, setFirst] = useState<string | null>(null);
  return (
    <DatePicker
      type="range"
      size="sm"
      mx="auto"
      mih={260}
      allowSingleDateInRange
      defaultDate={days.end}
      value={first ? [first, null] : [days.start, days.end]}
      onChange={([start, end]) => {
        if (!start) return;
        setFirst(end ? null : start);
        onChange({ start, end: end ?? start });
      }}
      // Mantine's own mark is the viewer's day, not that of UTC.
      getDayProps={(day) =>
        day === today()
          ? { "aria-current": "date", style: { boxShadow: "inset 0 -3px currentColor" } }
          : {}}
      hideOutsideDates
      weekendDays={[]}
      ariaLabels={{
        previousMonth: "Previous month",
        nextMonth: "Next month",
        previousYear: "Previous year",
        nextYear: "Next year",
        previousDecade: "Previous ten years",
        nextDecade: "Next ten years",
      }}
    />
  );
}
