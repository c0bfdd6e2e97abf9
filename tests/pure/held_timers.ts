/** A timer that was set, and not cleared since. */
export interface Timer {
  milliseconds: number;
  /** Does what the timer was set for. */
  ring: () => void;
}

/** Runs a function while no timer rings by itself. The set contains the waiting timers, in the order in which they were set. */
export async function whileTimersAreHeld(
  run: (timers: Set<Timer>) => Promise<void>,
): Promise<void> {
  const { setTimeout, clearTimeout } = globalThis;
  const timers = new Set<Timer>();
  Object.assign(globalThis, {
    setTimeout(ring: () => void, milliseconds: number) {
      const timer = { milliseconds, ring };
      timers.add(timer);
      return timer;
    },
    clearTimeout: (timer: Timer) => timers.delete(timer),
  });
  try {
    await run(timers);
  } finally {
    Object.assign(globalThis, { setTimeout, clearTimeout });
  }
}
