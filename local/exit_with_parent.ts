// Preloaded into the Edge Function's process, so that it ends when its parent is killed: an orphan gets
// another parent.
const parent = Deno.ppid;
Deno.unrefTimer(setInterval(() => {
  if (Deno.ppid !== parent) Deno.exit();
}, 250));
