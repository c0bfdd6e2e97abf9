import { useIsFetching } from "@tanstack/react-query";
import { type ComponentType, lazy, Suspense, useEffect } from "react";
import { Loading } from "../shared/parts.tsx";
import { loaded } from "../shared/transport.ts";

type Load = () => Promise<{ default: ComponentType }>;

const LOADS: Load[] = [];

/** A screen that is loaded when it is needed, or before. */
export function lazyScreen(load: Load) {
  LOADS.push(load);
  const Screen = lazy(() => loaded(load()));
  return () => (
    <Suspense fallback={<Loading what="the screen" />}>
      <Screen />
    </Suspense>
  );
}

/** Loads the other screens when this one has what it needs. Then they also open without a connection. */
export function useOtherScreens(): void {
  const isReading = useIsFetching() > 0;
  useEffect(() => {
    if (isReading) return;
    const timer = setTimeout(() => LOADS.forEach((load) => load().catch(() => {})), 1_000);
    return () => clearTimeout(timer);
  }, [isReading]);
}
