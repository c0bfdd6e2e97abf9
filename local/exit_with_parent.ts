// Preloaded into the Edge Function's process, so that it is not left behind when whoever started it
// is killed: an orphan's parent is another process.
const parent = Deno.ppid;
Deno.unrefTimer(setInterval(() => {
  if (Deno.ppid !== parent) Deno.exit();
}, 250));
