/** A timer that was set, and not cleared since. */
export interface Timer {
  milliseconds: number;
  /** What happens when it is due. */
  ring: () => void;
}

/** Runs something while no timer rings by itself: the set has those that wait, in the order in which they were set. */
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
