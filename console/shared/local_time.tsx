import { Button } from "@mantine/core";
import { useSyncExternalStore } from "react";
import { usePrinting } from "./printed.tsx";

/** Where the browser keeps that a person wants local times. */
const KEY = "audit-log-console-local-time";

let isLocal = localStorage.getItem(KEY) === "true";
const listeners = new Set<() => void>();

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function choose(next: boolean): void {
  isLocal = next;
  localStorage.setItem(KEY, String(next));
  for (const listener of listeners) listener();
}

/** Whether the person has chosen the times of their own zone. Paper has UTC, because anybody may read it. */
export function useLocalTime(): boolean {
  const isChosen = useSyncExternalStore(subscribe, () => isLocal);
  return !usePrinting() && isChosen;
}

export function LocalTimeButton() {
  const isLocal = useLocalTime();
  const shown = isLocal ? "Local" : "UTC";
  const other = isLocal ? "UTC" : "local time";
  return (
    <Button
      leftSection="Times:"
      aria-label={`Times: ${shown}, change to ${other}`}
      onClick={() => choose(!isLocal)}
    >
      {shown}
    </Button>
  );
}
