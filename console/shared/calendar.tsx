import "@mantine/dates/styles.css";
import { DatePicker } from "@mantine/dates";
import styles from "./range.module.css";

export interface CalendarProps {
  start: string | null;
  end: string | null;
  /** `end` is empty until the second day is chosen. */
  onChange: (start: string, end: string) => void;
}

/** A range of days to click; in a file of its own, since it is loaded only when opened. */
export default function Calendar({ start, end, onChange }: CalendarProps) {
  return (
    <DatePicker
      className={styles.calendar ?? ""}
      type="range"
      size="sm"
      mx="auto"
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
