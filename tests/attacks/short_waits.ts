// The entry file of a function that gives up on readers after one second, not after thirty.

const { setTimeout } = globalThis;

Object.assign(globalThis, {
  setTimeout: (ring: () => void, milliseconds = 0) =>
    setTimeout(ring, milliseconds === 30_000 ? 1_000 : milliseconds),
});

await import("../../supabase/functions/public-audit-log/index.ts");
