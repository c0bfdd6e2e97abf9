import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useOrganization } from "../data/organizations.ts";
import { useStreamChange } from "../data/stream_detail.ts";
import type { Stream } from "../data/streams.ts";
import { FormDialog } from "../shared/form_dialog.tsx";
import { notify } from "../shared/notice.tsx";
import { quoted } from "../shared/parts.tsx";
import type { KindName } from "./kinds.ts";
import { StartField } from "./start_field.tsx";

interface OfStream {
  stream: Stream;
  onClose: () => void;
}

export function ResumeStream({ stream, onClose }: OfStream) {
  const [start, setStart] = useState("continue");
  const work = useStreamChange("resume_stream");
  const onSuccess = () => {
    notify(`${quoted(stream.name)} is resumed.`);
    onClose();
  };
  return (
    <FormDialog
      title={`Resume ${quoted(stream.name)}`}
      action="Resume"
      work={work}
      onSubmit={() => work.mutate({ stream_id: stream.id, start }, { onSuccess })}
      onClose={onClose}
    >
      <StartField
        isPaused
        start={start}
        onChange={setStart}
        kind={stream.destination.kind as KindName}
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
      action="Delete destination"
      colour="red"
      work={work}
      onSubmit={() =>
        work.mutate({ stream_id: stream.id }, {
          onSuccess: () => {
            notify(`${quoted(stream.name)} is deleted.`);
            return navigate({ to: "/$organizationId/streams", params: { organizationId } });
          },
        })}
      onClose={onClose}
    >
      <p>
        It gets nothing more. Its stored secret and its place in the log are deleted. This cannot be
        undone. The log keeps every entry.
      </p>
    </FormDialog>
  );
}
