import { Button, Group } from "@mantine/core";
import { count } from "../shared/days.ts";

interface MoreProps {
  shown: number;
  total: number;
  isLoading: boolean;
  /** Absent when all are shown. */
  onLoad: (() => void) | undefined;
}

/** Says how many entries are shown, and loads the next older ones. */
export function More({ shown, total, isLoading, onLoad }: MoreProps) {
  return (
    <Group justify="space-between">
      <span role="status">
        1–{shown.toLocaleString("en")} of {count(total, "entry", "entries")}, newest first
      </span>
      {onLoad && <Button loading={isLoading} onClick={onLoad}>Load more</Button>}
    </Group>
  );
}
