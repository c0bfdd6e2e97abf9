import contract from "./openapi.json" with { type: "json" };

const EXAMPLE_URL = "https://project-ref.supabase.co/functions/v1/public-audit-log";

/** The contract (OpenAPI) of one installation, whose callers reach the function at `publicUrl`. */
export function contractOf(publicUrl: string): string {
  // The paths begin with the last part of the address, if it has more than a host.
  const [, server = publicUrl, name = ""] = publicUrl.match(/^(https?:\/\/.+)(\/[^/]+)$/) ?? [];
  return JSON.stringify({ ...contract, servers: [{ url: server }] })
    .replaceAll(EXAMPLE_URL, () => publicUrl)
    .replaceAll('"/public-audit-log/', () => `"${name}/`)
    .replaceAll('"/public-audit-log"', () => `"${name || "/"}"`);
}
