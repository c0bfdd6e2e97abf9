import { type Get, readProject, refuse } from "../public-audit-log/environment.ts";
import { readKeys } from "./sealed.ts";

/**
 * Reads the variables that Supabase gives every Edge Function, and those of streams. `AUDIT_LOG_STREAMS_TRIGGER_SECRET` is
 * any long random text, `AUDIT_LOG_STREAMS_KEYS` private keys (`readKeys`). `AUDIT_LOG_STREAMS_PROXY`, if set, is the address of a
 * proxy. `AUDIT_LOG_STREAMS_LOCAL=true` is for local runs only: streams may then call the machine itself.
 */
export async function readEnvironment(get: Get) {
  const { url, secretKey } = readProject(get);
  const proxy = get("AUDIT_LOG_STREAMS_PROXY");
  const triggerSecret = required("AUDIT_LOG_STREAMS_TRIGGER_SECRET");
  if (triggerSecret.length < 20) {
    refuse("AUDIT_LOG_STREAMS_TRIGGER_SECRET has fewer than 20 characters");
  }
  const keys = await readKeys(required("AUDIT_LOG_STREAMS_KEYS"))
    .catch(() => refuse("AUDIT_LOG_STREAMS_KEYS is not a P-256 key, PKCS #8 in base64"));
  if (proxy && URL.parse(proxy)?.protocol !== "http:") {
    refuse("AUDIT_LOG_STREAMS_PROXY is not an address like http://…");
  }
  return {
    url,
    secretKey,
    triggerSecret,
    keys,
    ownHosts: [url, get("PUBLIC_AUDIT_LOG_URL") || url].flatMap(ownHostsOf),
    ...proxy && { proxy: new URL(proxy) },
    allowsLoopback: get("AUDIT_LOG_STREAMS_LOCAL") === "true",
  };

  function required(name: string): string {
    return get(name) || refuse(`${name} is not set`);
  }
}

/** Supabase serves a project under several names: `REF.supabase.co`, `REF.functions.supabase.co`, … */
function ownHostsOf(url: string): string[] {
  const { hostname } = new URL(url);
  const [, reference, domain] = hostname.match(/^([a-z0-9]+)\.(supabase\.(?:co|in|red))$/) ?? [];
  const parts = ["functions", "storage", "realtime"];
  return [hostname, ...reference ? parts.map((part) => `${reference}.${part}.${domain}`) : []];
}
