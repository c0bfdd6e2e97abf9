import { NativeSelect, Stack, TextInput } from "@mantine/core";
import { addDays, today } from "../shared/days.ts";
import { Hint } from "../shared/parts.tsx";
import { KIND_OF, type KindName } from "./kinds.ts";

const STARTS = [
  { value: "now", label: "From now on" },
  { value: "day", label: "From date" },
  { value: "beginning", label: "From the beginning of the log" },
];
/** For a stream that was paused. */
const CONTINUE = { value: "continue", label: "Where it was: nothing is missing" };

interface StartFieldProps {
  isPaused?: boolean;
  /** `now`, `beginning`, `continue` or a day. */
  start: string;
  onChange: (start: string) => void;
  kind: KindName;
}

export function StartField({ isPaused = false, start, onChange, kind }: StartFieldProps) {
  const isDay = !/[a-z]/.test(start);
  return (
    <Stack gap={6}>
      <NativeSelect
        label="Start"
        data={isPaused ? [CONTINUE, ...STARTS] : STARTS}
        value={isDay ? "day" : start}
        onChange={({ currentTarget: { value } }) =>
          onChange(value === "day" ? addDays(today(), -30) : value)}
      />
      {isDay && (
        <TextInput
          type="date"
          aria-label="Date (UTC)"
          w={170}
          required
          max={today()}
          value={start}
          onChange={({ currentTarget: { value } }) => onChange(value)}
        />
      )}
      {isPaused && start === "now" && <Hint>What was written during the pause is not sent.</Hint>}
      {(isDay || start === "beginning") && (
        <Hint>
          {isPaused && "What was sent before is sent again. "}
          {KIND_OF[kind].caution} You can send earlier entries once a day.
        </Hint>
      )}
    </Stack>
  );
}
