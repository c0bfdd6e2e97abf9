import contract from "./openapi.json" with { type: "json" };

/** The address that its examples have. */
const EXAMPLE_URL = "https://project-ref.supabase.co/functions/v1/public-audit-log";

/** The contract (OpenAPI) of one installation, whose callers reach the function at `publicUrl`. */
export function contractOf(publicUrl: string): string {
  const [, server = "", name = ""] = publicUrl.match(/^(.*)\/([^/]+)\/?$/) ?? [];
  return JSON.stringify({ ...contract, servers: [{ url: server }] })
    .replaceAll(EXAMPLE_URL, () => publicUrl)
    .replaceAll('"/public-audit-log', () => `"/${name}`);
}
