import { Radio, Stack, TextInput } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { useEntriesFrom } from "../data/stream_detail.ts";
import { addDays, count, formatSeconds, today } from "../shared/days.ts";
import { Hint } from "../shared/parts.tsx";
import { KIND_OF, type KindName } from "./kinds.ts";

/** A run delivers some 16,000, and one begins every 10 to 60 seconds. Of small batches, one a second. */
const ENTRIES_PER_SECOND = 500;

interface StartFieldProps {
  /** A choice before the others, where a stream is resumed. */
  first?: ReactNode;
  /** `now`, `beginning`, a day, or the value of `first`. */
  start: string;
  onChange: (start: string) => void;
  kind: KindName;
  /** None: all. */
  actions: string[];
}

/** Asks from when on entries are sent, and says how many there are, and how long that takes. */
export function StartField({ first, start, onChange, kind, actions }: StartFieldProps) {
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
        {(isDay && start || start === "beginning") && (
          <Expected day={start} kind={kind} actions={actions} />
        )}
      </Stack>
    </Radio.Group>
  );
}

function Expected(
  { day, kind, actions }: { day: string } & Pick<StartFieldProps, "kind" | "actions">,
) {
  const { data } = useEntriesFrom(day, actions);
  const speed = KIND_OF[kind].mostEntries ?? ENTRIES_PER_SECOND;
  const time = formatSeconds(Math.max(10, (data?.total ?? 0) / speed));
  return (
    <div role="status">
      <Hint>
        {data && `${count(data.total, "entry", "entries")}${data.total ? `, about ${time}` : ""}. `}
        {KIND_OF[kind].caution} You can send earlier entries once a day.
      </Hint>
    </div>
  );
}
