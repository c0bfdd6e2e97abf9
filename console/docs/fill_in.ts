/** Where an installation is. */
export interface Addresses {
  /** The API's address, as callers use it. */
  auditLogUrl: string;
  /** The console's address, with a slash at its end. */
  consoleUrl: string;
}

/** Puts an installation's addresses in the place of those that a text of docs/ has. */
export function fillIn(text: string, { auditLogUrl, consoleUrl }: Addresses): string {
  return text
    .replaceAll("https://….supabase.co/functions/v1/public-audit-log", auditLogUrl)
    .replaceAll("https://console.example.com/", consoleUrl);
}

/** Makes the contract (docs/openapi.json) that of one installation. */
export function contractOf(openapi: string, { auditLogUrl }: Addresses): string {
  const [, server = "", name = ""] = auditLogUrl.match(/^(.*)\/([^/]+)$/) ?? [];
  const text = openapi
    .replaceAll("https://project-ref.supabase.co/functions/v1/public-audit-log", auditLogUrl)
    .replaceAll('"/public-audit-log', `"/${name}`);
  return JSON.stringify({ ...JSON.parse(text), servers: [{ url: server }] }, null, 2);
}
