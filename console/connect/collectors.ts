/** How a program takes the log: what one copies, with address and key filled in. */
export interface Collector {
  id: string;
  name: string;
  /** What to do with the text. */
  instructions: string;
  text: (url: string, token: string) => string;
}

// All of them are run by tests/clients.

export const COLLECTORS: Collector[] = [
  {
    id: "curl",
    name: "curl",
    instructions: "Asks once for the entries of today. Use it to see that the key works.",
    text: (url, token) => {
      const day = new Date().toISOString().slice(0, 10);
      return `curl "${url}?start=${day}&end=${day}" \\\n  -H "Authorization: Bearer ${token}"`;
    },
  },
  {
    id: "export",
    name: "A file, kept up to date",
    instructions:
      "Runs examples/export.ts of this project with Deno. It writes every entry once and adds new ones as they come, also after a restart.",
    text: (url, token) =>
      `AUDIT_LOG_API_KEY=${token} deno run --allow-net=${new URL(url).host} \\\n` +
      "  --allow-env=AUDIT_LOG_API_KEY --allow-read=. --allow-write=. \\\n" +
      `  examples/export.ts --url=${url} --out=audit-log.ndjson --follow`,
  },
  {
    id: "node-red",
    name: "Node-RED",
    instructions:
      "Import examples/node-red/follow_audit_log.json of this project, and start Node-RED with these variables.",
    text: (url, token) =>
      `AUDIT_LOG_URL=${url}\nAUDIT_LOG_API_KEY=${token}\nAUDIT_LOG_FILE=/var/log/audit-log.ndjson`,
  },
  {
    id: "program",
    name: "Your own program",
    instructions:
      "Set these variables. The page “Integrating” has the loop in curl, TypeScript and Python.",
    text: (url, token) => `AUDIT_LOG_URL=${url}\nAUDIT_LOG_API_KEY=${token}`,
  },
];
