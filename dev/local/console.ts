import { glob } from "node:fs/promises";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { runCommand } from "./run_command.ts";

const BUILD = fileURLToPath(new URL("../../console/build.ts", import.meta.url));

const CONTENT_TYPES: Record<string, string> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".woff2": "font/woff2",
  ".json": "application/json",
  ".tgz": "application/gzip",
};

/** Answers with one of the admin console's files; `null` if there is no such file. */
export type ServeConsole = (path: string) => Response | null;

/** Builds the admin console for a stack, as for any static host. */
export async function buildConsole(options: {
  apiUrl: string;
  publishableKey: string;
  outDir: string;
  /** More variables for the build, such as `VITE_SIGN_IN`. */
  choices?: Record<string, string>;
}): Promise<ServeConsole> {
  const { apiUrl, publishableKey, outDir, choices } = options;
  await Deno.remove(outDir, { recursive: true }).catch(() => {});
  await runCommand(Deno.execPath(), {
    args: ["run", "--allow-all", BUILD, outDir],
    env: {
      VITE_SUPABASE_URL: apiUrl,
      VITE_SUPABASE_PUBLISHABLE_KEY: publishableKey,
      VITE_CONSOLE_URL: `${apiUrl}/`,
      ...choices,
    },
  });

  const files = new Map<string, Uint8Array<ArrayBuffer>>();
  for await (const path of glob("**/*.*", { cwd: outDir })) {
    files.set(`/${path}`, await Deno.readFile(join(outDir, path)));
  }
  return (path) => {
    const name = path === "/" ? "/index.html" : path;
    const body = files.get(name);
    if (!body) return null;
    // Asset names contain a hash of their content.
    const isAsset = name.startsWith("/assets/");
    // Every host of the console should send these (docs/operating.md).
    const headers = {
      "Content-Type": CONTENT_TYPES[extname(name)] ?? "application/octet-stream",
      "Cache-Control": isAsset ? "public, max-age=31536000, immutable" : "no-cache",
      // The page's own policy covers the rest, but cannot set frame-ancestors.
      "Content-Security-Policy": "frame-ancestors 'none'",
      "X-Content-Type-Options": "nosniff",
    };
    return new Response(body, { headers });
  };
}
