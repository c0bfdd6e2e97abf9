export interface Addresses {
  /** The API's address, as callers use it. */
  auditLogUrl: string;
  /** The console's address, with a slash at its end. */
  consoleUrl: string;
}

/** Puts an installation's addresses in the place of those that a text of docs/ has. */
export function fillIn(text: string, { auditLogUrl, consoleUrl }: Addresses): string {
  return text
    .replaceAll("https://….supabase.co/functions/v1/public-audit-log", () => auditLogUrl)
    .replaceAll("https://console.example.com/", () => consoleUrl);
}
