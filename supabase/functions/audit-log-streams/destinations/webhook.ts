import { sha256 } from "../../public-audit-log/sha256.ts";
import { encode, JSON_TYPE, type Kind, NDJSON } from "./destination.ts";

const BODIES = [
  { value: "ndjson", label: "One JSON object a line (NDJSON)" },
  { value: "array", label: "A JSON array" },
];

/** Signs as https://www.standardwebhooks.com says. The id is a hash of the body: a repeat with more has another. */
export const webhook: Kind = {
  name: "Webhook",
  hint: "Your own receiver, signed as Standard Webhooks",
  url: {
    label: "Address",
    description: "Auditors see it: it must not contain a token",
    placeholder: "https://example.com/audit-log",
  },
  more: { name: "body", label: "Body", options: BODIES },
  secrets: [],
  look: "Your receiver has an entry with the action",
  search: "audit_log_test",
  async build({ lines, what }, secrets, { url, body: form }) {
    const isArray = form === "array";
    const body = encode(isArray ? `[${lines.join(",\n")}]` : `${lines.join("\n")}\n`);
    const id = `msg_${(await sha256(body)).slice(0, 32)}`;
    const timestamp = String(Math.floor(Date.now() / 1000));
    const signed = await new Blob([`${id}.${timestamp}.`, body]).arrayBuffer();
    const signatures = await Promise.all(secrets.map((secret) => sign(signed, secret)));
    const headers = {
      "content-type": isArray ? JSON_TYPE : NDJSON,
      "audit-log-content": what,
      ...secrets.length > 0 && {
        "webhook-id": id,
        "webhook-timestamp": timestamp,
        "webhook-signature": signatures.join(" "),
      },
    };
    return { method: "POST", url, headers, body };
  },
};

async function sign(bytes: ArrayBuffer, secret: string): Promise<string> {
  const raw = Uint8Array.from(atob(secret.replace(/^whsec_/, "")), (char) => char.charCodeAt(0));
  const hmac = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", raw, hmac, false, ["sign"]);
  const signature = new Uint8Array(await crypto.subtle.sign("HMAC", key, bytes));
  return `v1,${btoa(String.fromCharCode(...signature))}`;
}

export function newSigningSecret(): string {
  return `whsec_${btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(24))))}`;
}
