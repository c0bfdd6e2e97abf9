import { useMutation } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import type { PackOptions } from "./pack.ts";

/** Work that shows its progress and can be cancelled. It ends with its screen. Null: there is no result. */
export function useWork<T, Given>(
  run: (given: Given, options: Omit<PackOptions, "kept">) => Promise<T | null>,
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
