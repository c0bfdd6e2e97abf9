import { BlockList, isIP } from "node:net";
import type { SendOptions } from "./send.ts";

/** All that is not of the public internet (IANA's special-purpose ranges), or leads to another address as 6to4 does. */
const SPECIAL = [
  "0.0.0.0/8", // this network
  "10.0.0.0/8", // private
  "100.64.0.0/10", // carriers' NAT, and metadata of some clouds
  "127.0.0.0/8", // loopback
  "168.63.129.16/32", // Azure's own services, which each of its machines reaches
  "169.254.0.0/16", // link-local, and metadata of clouds
  "172.16.0.0/12", // private
  "192.0.0.0/24", // protocol assignments
  "192.0.2.0/24", // documentation
  "192.88.99.0/24", // 6to4 relays
  "192.168.0.0/16", // private
  "198.18.0.0/15", // benchmarks
  "198.51.100.0/24", // documentation
  "203.0.113.0/24", // documentation
  "224.0.0.0/3", // multicast, reserved, and broadcast
  // All but global unicast, which is 2000::/3: loopback, mapped IPv4, NAT64, unique local, link-local, multicast.
  "::/3",
  "4000::/2",
  "8000::/1",
  "2001::/23", // Teredo, benchmarks, ORCHID
  "2001:db8::/32", // documentation
  "2002::/16", // 6to4
  "2620:4f:8000::/48", // AS112
  "3ffe::/16", // 6bone
  "3fff::/20", // documentation
];

const special = new BlockList();
for (const range of SPECIAL) {
  const [address = "", prefix] = range.split("/");
  special.addSubnet(address, Number(prefix), isIP(address) === 6 ? "ipv6" : "ipv4");
}

export function isPublic(address: string): boolean {
  const family = isIP(address);
  return family !== 0 && !special.check(address, family === 6 ? "ipv6" : "ipv4");
}

/** Looks up the addresses of a name. Some resolvers fail where a name has none of a type. */
export async function resolve(name: string): Promise<string[]> {
  const lookUps = [Deno.resolveDns(name, "A"), Deno.resolveDns(name, "AAAA")];
  const found = await Promise.allSettled(lookUps);
  return found.flatMap((result) => result.status === "fulfilled" ? result.value : []);
}

/** The host of a URL, as names and addresses are compared: without brackets and dots at its end. */
export function hostOf(url: URL): string {
  return url.hostname.replace(/^\[|\]$|\.+$/g, "");
}

/** Whether a URL leads to this machine, and this is a local run. */
export function isLocal(url: URL, { allowsLoopback }: SendOptions): boolean {
  return allowsLoopback === true && ["localhost", "127.0.0.1"].includes(hostOf(url));
}

/** Says why a URL must not be called, whatever its addresses are. */
export function refusalOf(url: URL, options: SendOptions): string | undefined {
  const host = hostOf(url);
  if (isLocal(url, options)) return undefined;
  if (url.protocol !== "https:") return "it is not https";
  if (url.username || url.password) return "it has a user or a password";
  if (url.port !== "" && Number(url.port) < 1024) return "its port is neither 443 nor above 1023";
  const isOwn = options.ownHosts.some((own) => host === own || host.endsWith(`.${own}`));
  return isOwn ? "it is an address of this project" : undefined;
}

/** Looks up the addresses of a URL's host, once. Throws if there is none, or a single one that is not public. */
export async function addressesOf(url: URL, options: SendOptions): Promise<string[]> {
  const host = hostOf(url);
  if (isLocal(url, options)) return ["127.0.0.1"];
  const addresses = isIP(host) ? [host] : await (options.resolve ?? resolve)(host);
  if (addresses.length === 0) throw new Error(`no address of ${host} was found`);
  if (!addresses.every(options.isAllowed ?? isPublic)) {
    throw new Error(`${host} is not on the public internet`);
  }
  // IPv4 first, because Supabase's functions do not have IPv6 everywhere.
  return addresses.toSorted((a, b) => isIP(a) - isIP(b)).slice(0, 3);
}
