import { Radio } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useOrganization } from "../data/organizations.ts";
import { sealsQuery } from "../data/seals.ts";
import { useStreamChange } from "../data/stream_detail.ts";
import type { Stream } from "../data/streams.ts";
import { addDays, count, dayOf, lastDays, today } from "../shared/days.ts";
import { FormDialog } from "../shared/form_dialog.tsx";
import { quoted } from "../shared/parts.tsx";
import { type KindName, kindOf } from "./kinds.ts";
import { StartField } from "./start_field.tsx";

interface OfStream {
  stream: Stream;
  onClose: () => void;
}

export function PauseStream({ stream, onClose }: OfStream) {
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
        Nothing is sent until somebody resumes the stream. Until then, entries wait in the log.{" "}
        {kindOf(stream)?.caution}
      </p>
      <Cost stream={stream} />
    </FormDialog>
  );
}

/** When retention would delete what waits, and how much of it. */
function Cost({ stream }: { stream: Stream }) {
  const { id: organizationId } = useOrganization();
  const { data } = useQuery(sealsQuery({ organizationId, ...lastDays(1) }));
  if (!data?.keep_days || data.hold_reason !== null) return null;
  const { loses_entries_at } = stream;
  const day = loses_entries_at ? dayOf(loses_entries_at) : addDays(today(), data.keep_days + 1);
  const entries = stream.hours.reduce((sum, { entries }) => sum + entries, 0);
  return (
    <p>
      Retention keeps entries for {count(data.keep_days, "day")}. If the stream is still paused on
      {" "}
      {day}, retention begins to delete entries that were never sent{entries > 0 &&
        `, about ${entries.toLocaleString("en")} a day as in the last 24 hours`}.
    </p>
  );
}

export function ResumeStream({ stream, onClose }: OfStream) {
  const [start, setStart] = useState("continue");
  const work = useStreamChange("resume_stream");
  return (
    <FormDialog
      title={`Resume ${quoted(stream.name)}`}
      action="Resume"
      work={work}
      onSubmit={() => work.mutate({ stream_id: stream.id, start }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <StartField
        first={
          <Radio
            value="continue"
            label="Where it was"
            description="Nothing is missing."
          />
        }
        start={start}
        onChange={setStart}
        kind={stream.destination.kind as KindName}
        actions={stream.actions ?? []}
      />
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
        Its destination gets nothing more. Its stored secret and its place in the log are deleted.
        This cannot be undone. The log keeps every entry.
      </p>
    </FormDialog>
  );
}
