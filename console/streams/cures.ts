import { kindOf } from "./kinds.ts";

interface Failed {
  kind: string;
  status: number | null;
  error: string | null;
}

const SECRET = "the secret";

/**
 * What to do, by a status and the reason, or by the error of an attempt without a status, as audit-log-streams and Deno
 * word them. The first cause that fits counts.
 */
export const CURES: [cause: RegExp, cure: string][] = [
  [/^2\d\d status/, "Check the address: what answers there is not the destination."],
  [/^2/, "Read its answer: the destination does not take all that it got."],
  [/^3/, "Enter the address to which this one leads: redirects are not followed."],
  [/^40[13]/, `Check ${SECRET}: it is wrong, disabled, or may not write here.`],
  [/^40[45]/, "Check the address: there is nothing at this path."],
  [/^410/, "Resume it if it should go on: its answer was that it wants no more."],
  [/^429/, "Nothing to do: the destination asks for a pause, and gets it."],
  [/^5/, "Look into the destination's own log: it has a fault. Sending goes on."],
  [/^4/, "Check the address and the settings: the destination does not take this request."],
  [/^no address of /, "Correct the host in the address: DNS does not know it."],
  [/not on the public internet$/, "Enter a public host: private networks cannot be reached."],
  [
    /^the URL is refused/,
    "Enter another address. It needs https, port 443 or one above 1023, no password, and a host outside of this project.",
  ],
  [/^the proxy answers/, "Ask the people who run this service to check their proxy."],
  [/certificate.*expired/i, "Renew the destination's certificate: it has expired."],
  [
    /certificate.*not ?valid ?for ?name/i,
    "Check the host in the address: the destination's certificate is for another name.",
  ],
  [
    /certificate.*unknown ?issuer/i,
    "Give the destination a certificate of a public authority: nobody here knows who signed this one.",
  ],
  [/certificate/, "Replace the destination's certificate: it is not valid."],
  [/corrupt message|not speak HTTP/, "Check the port: what answers there is no HTTPS server."],
  [
    /connection refused/i,
    "Check the port, and whether the destination runs: nothing listens there.",
  ],
  [/unreachable/, "Check the destination's network: no route leads there."],
  [
    /whole answer within|timed out/i,
    "Check the destination's firewall and load: it did not answer in time.",
  ],
  [
    /closed the connection|reset|end of file|close_notify|broken pipe/i,
    "Look into the destination's own log: it closed the connection without an answer.",
  ],
  [/its answer (is|has|comes)/, "Check the path: a destination's answer is not that long."],
  [/secret/, `Enter ${SECRET} again: the stored one cannot be used.`],
  [/^/, "Send the reason to the people who run this service."],
];

export function cure({ kind, status, error }: Failed): string {
  // Elasticsearch answers each entry, within a success.
  const [, code = status] = error?.match(/^it rejects the entry .* with status (\d+): /) ?? [];
  const failure = code === null ? error ?? "" : `${code} ${error}`;
  const [, found = ""] = CURES.find(([cause]) => cause.test(failure)) ?? [];
  const secret = kindOf({ destination: { kind } })?.secrets.at(-1)?.label.toLowerCase();
  return found.replace(SECRET, `the ${secret ?? "signing secret"}`);
}
