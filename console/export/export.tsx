import { Alert, Button, Group, Progress, SegmentedControl, Stack } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import type { LogFilter } from "../data/entries.ts";
import { useOrganization } from "../data/organizations.ts";
import { count, formatDays, PRESETS } from "../shared/days.ts";
import { Dialog } from "../shared/dialog.tsx";
import { Failure, Hint } from "../shared/parts.tsx";
import { conditionsOf } from "../shared/search_params.ts";
import { exportEntries, type Format, openFile } from "./export_file.ts";

/** Writes each entry of a filter to a file once, also while others arrive. */
export function Export({ filter, onClose }: { filter: LogFilter; onClose: () => void }) {
  const organization = useOrganization();
  const conditions = conditionsOf(filter);
  const [format, setFormat] = useState<Format>("ndjson");
  const [share, setShare] = useState(0);
  const controller = useRef<AbortController>(null);
  useEffect(() => () => controller.current?.abort(), []);
  const work = useMutation({
    mutationFn: async () => {
      const { organizationId: _id, start, end, ...chosen } = filter;
      const name = ["audit-log", start, end, ...Object.values(chosen)].filter(Boolean).join("_");
      setShare(0);
      const { signal } = controller.current = new AbortController();
      try {
        // An object can be longer than a name of a file.
        const file = await openFile(`${name.slice(0, 150)}.${format}`);
        return file && await exportEntries(file, { filter, format, signal, onProgress: setShare });
      } catch (error) {
        if (signal.aborted) return null;
        throw error;
      }
    },
  });
  return (
    <Dialog title="Export" isBusy={work.isPending} onClose={onClose}>
      <p>
        All entries of <bdi>{organization.name}</bdi>
        {formatDays(filter) !== formatDays(PRESETS.all.days()) &&
          ` from ${filter.start} to ${filter.end} (UTC)`}
        {conditions.length > 0 && " that match the filter"}, oldest first.
        {conditions.map(({ text }) => <bdi key={text} style={{ display: "block" }}>{text}</bdi>)}
      </p>
      <Group gap="xs">
        <SegmentedControl
          aria-label="Format"
          size="xs"
          data={[{ value: "ndjson", label: "NDJSON" }, { value: "csv", label: "CSV" }]}
          value={format}
          disabled={work.isPending}
          onChange={setFormat}
        />
        <Hint>
          {format === "csv"
            ? "For spreadsheets: a ' is put before a value that would run as a formula. As evidence, take NDJSON."
            : `For programs: each line is an entry as JSON, byte for byte as in the API. Seals ${
              conditions.length > 0
                ? "prove whole days only: as evidence, export without a filter"
                : "can prove it"
            }.`}
        </Hint>
      </Group>
      {work.isPending && (
        <Stack gap="xs" align="flex-start">
          <Progress w="100%" value={Math.min(100, share * 100)} aria-label="Exported" />
          <Button onClick={() => controller.current?.abort()}>Cancel</Button>
        </Stack>
      )}
      {typeof work.data === "number" && (
        <Alert color="green" role="status">
          {count(work.data, "entry", "entries")} written. Later entries are not in the file.
        </Alert>
      )}
      <Failure error={work.error} />
      {!work.isPending && (
        <Group justify="flex-end">
          <Button variant="filled" onClick={() => work.mutate()}>
            Export {format.toUpperCase()}
          </Button>
        </Group>
      )}
    </Dialog>
  );
}
