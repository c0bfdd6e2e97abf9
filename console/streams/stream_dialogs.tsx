import { Radio, Stack, TextInput } from "@mantine/core";
import { useInputState } from "@mantine/hooks";
import { useNavigate } from "@tanstack/react-router";
import { type ChangeEvent, type ReactNode, useState } from "react";
import { useLogDays } from "../data/log_days.ts";
import { useOrganization } from "../data/organizations.ts";
import { type Stream, useStreamChange } from "../data/streams.ts";
import { count, lastDays, today } from "../shared/days.ts";
import { FormDialog } from "../shared/form_dialog.tsx";
import { Hint, quoted } from "../shared/parts.tsx";
import { kindOf } from "./kinds.ts";

interface OfStream {
  stream: Stream;
  onClose: () => void;
}

export function PauseStream({ stream, onClose }: OfStream) {
  const { id: organizationId } = useOrganization();
  const keepDays = useLogDays({ organizationId, ...lastDays(1) }).data?.keep_days;
  const work = useStreamChange("pause_stream");
  return (
    <FormDialog
      title={`Pause ${quoted(stream.name)}?`}
      action="Pause"
      work={work}
      onSubmit={() => work.mutate({ stream_id: stream.id }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <p>
        Nothing is sent until somebody resumes the stream. Entries wait in the log, and follow then.
        {keepDays && (
          ` Retention deletes entries after ${
            count(keepDays, "day")
          }: those that still wait then ` +
          "are never sent."
        )} {kindOf(stream)?.caution}
      </p>
    </FormDialog>
  );
}

export function ResumeStream({ stream, onClose }: OfStream) {
  const [start, setStart] = useState("continue");
  const [day, setDay] = useInputState(today());
  const work = useStreamChange("resume_stream");
  return (
    <FormDialog
      title={`Resume ${quoted(stream.name)}`}
      action="Resume"
      work={work}
      onSubmit={() => {
        const request = { stream_id: stream.id, start: start === "day" ? day : start };
        work.mutate(request, { onSuccess: onClose });
      }}
      onClose={onClose}
    >
      <StartField
        first={<Radio value="continue" label="Where it was: nothing is missing" />}
        start={start}
        onChange={setStart}
        day={day}
        onDay={setDay}
      />
      <Hint>
        {start === "now" && "What was written during the pause is not sent."}
        {(start === "day" || start === "beginning") &&
          `Entries that were sent before are sent again. ${kindOf(stream)?.caution ?? ""}`}
      </Hint>
    </FormDialog>
  );
}

export function DeleteStream({ stream, onClose }: OfStream) {
  const { id: organizationId } = useOrganization();
  const navigate = useNavigate();
  const work = useStreamChange("delete_stream");
  return (
    <FormDialog
      title={`Delete ${quoted(stream.name)}?`}
      action="Delete stream"
      colour="red"
      work={work}
      onSubmit={() =>
        work.mutate({ stream_id: stream.id }, {
          onSuccess: () => navigate({ to: "/$organizationId/streams", params: { organizationId } }),
        })}
      onClose={onClose}
    >
      <p>
        Its destination gets nothing more. What is stored of its secret is deleted, and so is how
        far it came. This cannot be undone. The log keeps every entry.
      </p>
    </FormDialog>
  );
}

interface StartFieldProps {
  first?: ReactNode;
  start: string;
  onChange: (start: string) => void;
  day: string;
  onDay: (day: ChangeEvent<HTMLInputElement>) => void;
}

/** Asks from when on entries are sent. */
export function StartField({ first, start, onChange, day, onDay }: StartFieldProps) {
  return (
    <Radio.Group label="From" value={start} onChange={onChange}>
      <Stack gap={8} mt={4}>
        {first}
        <Radio value="now" label="Now on" />
        <Radio value="day" label="A day on" />
        {start === "day" && (
          <TextInput
            type="date"
            aria-label="First day (UTC)"
            w={170}
            required
            max={today()}
            value={day}
            onChange={onDay}
          />
        )}
        <Radio value="beginning" label="The beginning of the log" />
      </Stack>
    </Radio.Group>
  );
}
