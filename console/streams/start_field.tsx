import { Radio, Stack, TextInput } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { addDays, today } from "../shared/days.ts";
import { Hint } from "../shared/parts.tsx";
import { KIND_OF, type KindName } from "./kinds.ts";

interface StartFieldProps {
  /** A choice before the others, where a stream is resumed. */
  first?: ReactNode;
  /** `now`, `beginning`, a day, or the value of `first`. */
  start: string;
  onChange: (start: string) => void;
  kind: KindName;
}

/** Asks from when on entries are sent. */
export function StartField({ first, start, onChange, kind }: StartFieldProps) {
  const [day, setDay] = useState(() => addDays(today(), -30));
  const again = first && "What was sent before is sent again";
  const isDay = !/[a-z]/.test(start);
  return (
    <Radio.Group
      label="Start"
      value={isDay ? "day" : start}
      onChange={(which) => onChange(which === "day" ? day : which)}
    >
      <Stack gap={8} mt={4}>
        {first}
        <Radio
          value="now"
          label="From now on"
          description={first && "What was written during the pause is not sent"}
        />
        <Radio value="day" label="From date" description={again} />
        {isDay && (
          <TextInput
            type="date"
            aria-label="Date (UTC)"
            w={170}
            max={today()}
            value={day}
            onChange={({ currentTarget: { value } }) => {
              setDay(value);
              onChange(value);
            }}
          />
        )}
        <Radio value="beginning" label="From the beginning of the log" description={again} />
        {start !== "now" && start !== "continue" && (
          <Hint>{KIND_OF[kind].caution} You can send earlier entries once a day.</Hint>
        )}
      </Stack>
    </Radio.Group>
  );
}
