import { Alert, Button, Checkbox, Divider, Group, Progress, SegmentedControl } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { type ColumnName, COLUMNS } from "../../cli/csv.ts";
import type { LogFilter } from "../data/entries.ts";
import { useOrganization } from "../data/organizations.ts";
import { curl } from "../keys/collectors.ts";
import { Copyable } from "../shared/copy.tsx";
import { count } from "../shared/days.ts";
import { Dialog } from "../shared/dialog.tsx";
import { actionName, Failure, Hint } from "../shared/parts.tsx";
import { actionsOf } from "../shared/search.ts";
import { AUDIT_LOG_URL } from "../shared/transport.ts";
import { visible } from "../../seals/visible.ts";
import { exportText, type Format, openFile } from "./export_file.ts";

/** Writes each entry of a filter to a file once, also while others arrive. */
export function Export({ filter, onClose }: { filter: LogFilter; onClose: () => void }) {
  const organization = useOrganization();
  const [format, setFormat] = useState<Format>("ndjson");
  const [columns, setColumns] = useState<readonly ColumnName[]>(COLUMNS);
  const [{ written, total }, setProgress] = useState({ written: 0, total: 0 });
  const controller = useRef(new AbortController());
  const work = useMutation({
    mutationFn: async () => {
      controller.current = new AbortController();
      const { signal } = controller.current;
      setProgress({ written: 0, total: 0 });
      const { organizationId: _, start, end, ...chosen } = filter;
      const name = ["audit-log", start, end, ...Object.values(chosen)].filter(Boolean).join("_");
      const file = await openFile(`${name}.${format}`);
      if (!file) return false;
      try {
        const chosenColumns = format === "csv" ? columns : undefined;
        await exportText({ filter, columns: chosenColumns, signal, onProgress: setProgress })
          .pipeTo(file, { signal });
        return true;
      } catch (error) {
        if (signal.aborted) return false;
        throw error;
      }
    },
  });
  useEffect(() => () => controller.current.abort(), []);
  const percent = total && Math.min(100, written / total * 100);
  return (
    <Dialog title="Export" isBusy={work.isPending} onClose={onClose}>
      <p>
        The file gets all entries of <bdi>{organization.name}</bdi> from {filter.start} to{" "}
        {filter.end} (UTC){filter.action && ` with ${
          actionsOf(filter).map((code) => `“${actionName(code)}”`).join(" or ")
        }`}
        {filter.user_email && (
          <>
            {" "}of <bdi>{visible(filter.user_email)}</bdi>
          </>
        )}, oldest first.
      </p>
      <Group gap="xs">
        <SegmentedControl<Format>
          aria-label="Format"
          size="xs"
          disabled={work.isPending}
          data={[{ value: "ndjson", label: "NDJSON" }, { value: "csv", label: "CSV" }]}
          value={format}
          onChange={setFormat}
        />
        <Hint>
          {format === "csv"
            ? "A spreadsheet may run a value that begins with = + - @ as a formula. When you import the file, set all columns to text."
            : "Each line is one entry, byte for byte as the API answers."}
        </Hint>
      </Group>
      {format === "csv" && (
        <Checkbox.Group
          label="Columns"
          disabled={work.isPending}
          value={[...columns]}
          onChange={(chosen) => setColumns(COLUMNS.filter((name) => chosen.includes(name)))}
        >
          <Group gap="lg" mt={6}>
            {COLUMNS.map((name) => <Checkbox key={name} size="xs" value={name} label={name} />)}
          </Group>
        </Checkbox.Group>
      )}
      {work.isPending && (
        <div>
          <Progress value={percent} aria-label="Exported" />
          <p role="status">{written.toLocaleString("en")} of {count(total, "entry", "entries")}</p>
        </div>
      )}
      {work.data && (
        <Alert color="green" role="status">
          {count(written, "entry", "entries")} written. Later entries are not in the file.
        </Alert>
      )}
      <Failure error={work.error} />
      <Group justify="flex-end">
        {work.isPending
          ? <Button onClick={() => controller.current.abort()}>Cancel</Button>
          : (
            <Button
              variant="filled"
              disabled={format === "csv" && columns.length === 0}
              onClick={() => work.mutate()}
            >
              Export {format.toUpperCase()}
            </Button>
          )}
      </Group>
      <Divider />
      <Copyable
        title="The same with an API key, 1,000 entries at a time"
        text={command(filter, format)}
      />
    </Dialog>
  );
}

function command(filter: LogFilter, format: Format): string {
  const { start, end, action, user_email } = filter;
  const query = new URLSearchParams({ start, end, limit: "1000" });
  if (action) query.set("action", action);
  if (user_email) query.set("user_email", user_email);
  const accept = format === "ndjson" ? '--header "Accept: application/x-ndjson" ' : "";
  return curl(`${AUDIT_LOG_URL}?${query}`, accept);
}
