import "@mantine/core/styles/Progress.css";
import { Button, Progress, Stack } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";

export interface WorkOptions {
  signal: AbortSignal;
  /** Takes which part of the work is done, from 0 to 1. */
  onProgress: (share: number) => void;
}

/** Work that shows its progress and can be cancelled. It ends with its screen. Null: there is no result. */
export function useWork<T, Given>(
  run: (given: Given, options: WorkOptions) => Promise<T | null>,
) {
  const controller = useRef(new AbortController());
  const [share, setShare] = useState(0);
  const work = useMutation({
    mutationFn: async (given: Given) => {
      controller.current = new AbortController();
      const { signal } = controller.current;
      setShare(0);
      try {
        return await run(given, { signal, onProgress: setShare });
      } catch (error) {
        if (signal.aborted) return null;
        throw error;
      }
    },
  });
  useEffect(() => () => controller.current.abort(), []);
  return { ...work, share, cancel: () => controller.current.abort() };
}

interface WorkingProps {
  work: { isPending: boolean; share: number; cancel: () => void };
  label: string;
}

/** The progress of work, while there is any. */
export function Working({ work, label }: WorkingProps) {
  if (!work.isPending) return null;
  return (
    <Stack w="min(640px, 100%)" gap="xs" align="flex-start">
      <Progress w="100%" value={Math.min(100, work.share * 100)} aria-label={label} />
      <Button onClick={work.cancel}>Cancel</Button>
    </Stack>
  );
}
