import react from "@vitejs/plugin-react";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";

// Builds the admin console into a folder of static files, for one project. The files have the project's address and
// publishable key in them. Both are public.

const [outDir = fileURLToPath(new URL("dist", import.meta.url))] = Deno.args;
for (const name of ["VITE_SUPABASE_URL", "VITE_SUPABASE_PUBLISHABLE_KEY"]) {
  if (Deno.env.get(name)) continue;
  console.error(
    `${name} is not set. The address is https://<ref>.supabase.co. The key is in the project's ` +
      "dashboard, under Project Settings › API Keys.",
  );
  Deno.exit(2);
}
await build({
  root: fileURLToPath(new URL(".", import.meta.url)),
  // Relative, so that the files may lie in any folder of a host.
  base: "./",
  plugins: [react()],
  logLevel: "warn",
  build: {
    outDir: resolve(outDir),
    chunkSizeWarningLimit: 1000,
    // What the sign-in form needs is one script, because several compress less.
    rolldownOptions: {
      output: { codeSplitting: { groups: [{ name: "form", tags: ["$initial"] }] } },
    },
    // The page's policy refuses fonts in data: addresses.
    assetsInlineLimit: 0,
    // The oldest browsers that the scripts allow preload modules by themselves.
    modulePreload: { polyfill: false },
    // The oldest browsers that the scripts allow. They know light-dark(), so it stays as it is written.
    cssTarget: ["chrome123", "firefox124", "safari17.5"],
  },
});
