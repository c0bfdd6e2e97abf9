// Starts the Edge Function so that it gives up slow readers after one second instead of sixty.

const { setTimeout } = globalThis;

Object.assign(globalThis, {
  setTimeout: (ring: () => void, milliseconds = 0) =>
    setTimeout(ring, milliseconds === 60_000 ? 1_000 : milliseconds),
});

await import("../../supabase/functions/public-audit-log/index.ts");
