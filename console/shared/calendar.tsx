import "@mantine/dates/styles.css";
import { DatePicker } from "@mantine/dates";

interface CalendarProps {
  start: string | null;
  end: string | null;
  /** `end` is empty until the second day is chosen. */
  onChange: (start: string, end: string) => void;
}

export default function Calendar({ start, end, onChange }: CalendarProps) {
  return (
    <DatePicker
      type="range"
      size="sm"
      mx="auto"
      mih={260}
      allowSingleDateInRange
      {...end ? { defaultDate: end } : {}}
      value={[start, end]}
      onChange={([start, end]) => onChange(start ?? "", end ?? "")}
      hideOutsideDates
      weekendDays={[]}
      ariaLabels={{ previousMonth: "Previous month", nextMonth: "Next month" }}
    />
  );
}
