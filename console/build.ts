import react from "@vitejs/plugin-react";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";
import { contractOf } from "../supabase/functions/public-audit-log/contract.ts";
import metadata from "../deno.json" with { type: "json" };
import { packCli } from "../dev/tasks/build_cli.ts";
import { buildDocs } from "./docs/build_docs.ts";

// Builds the admin console into a folder of static files, for one project, with what its customers' developers need:
// pages, the contract and the command. The files have the project's address and publishable key in them, which are
// public.

const NEEDED = {
  VITE_SUPABASE_URL: "The project's address is https://<ref>.supabase.co",
  VITE_SUPABASE_PUBLISHABLE_KEY: "It is in the dashboard, under Project Settings › API Keys",
  VITE_CONSOLE_URL: "It is where people will open the console, as in https://console.example.com/",
};
for (const [name, where] of Object.entries(NEEDED)) {
  if (!Deno.env.get(name)) stop(`${name} is not set. ${where}.`);
}
// Addresses become part of scripts, pages and commands, in which quotes and spaces would mean something else.
for (const name of ["VITE_SUPABASE_URL", "VITE_CONSOLE_URL", "VITE_PUBLIC_AUDIT_LOG_URL"]) {
  const value = Deno.env.get(name);
  if (value && !/^https?:\/\/[\w.:[\]-]+(\/[\w.~%-]+)*\/?$/.test(value)) {
    stop(`${name} is not an address like https://….`);
  }
}
const [folder = fileURLToPath(new URL("dist", import.meta.url))] = Deno.args;
const outDir = resolve(folder);
await build({
  root: fileURLToPath(new URL(".", import.meta.url)),
  // Relative, so that the files may lie in any folder of a host.
  base: "./",
  plugins: [react()],
  logLevel: "warn",
  build: {
    outDir,
    emptyOutDir: true,
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

const env = (name: string) => (Deno.env.get(name) ?? "").replace(/\/$/, "");
const addresses = {
  auditLogUrl: env("VITE_PUBLIC_AUDIT_LOG_URL") ||
    `${env("VITE_SUPABASE_URL")}/functions/v1/public-audit-log`,
  consoleUrl: `${env("VITE_CONSOLE_URL")}/`,
};
await Deno.writeTextFile(join(outDir, "openapi.json"), contractOf(addresses.auditLogUrl));
await buildDocs(join(outDir, "docs"), addresses);
await packCli(join(outDir, "public-audit-log.tgz"));
// Never changes under its name, so that lockfiles can have its checksum.
await Deno.copyFile(
  join(outDir, "public-audit-log.tgz"),
  join(outDir, `public-audit-log-${metadata.version}.tgz`),
);

function stop(message: string): never {
  console.error(message);
  Deno.exit(2);
}
