import * as z from "zod";

const Address = z.union([z.ipv4(), z.ipv6()]);

/**
 * The caller's IP address, for the record of who read the log; `undefined` when no proxy reports one. On Supabase
 * it is `CF-Connecting-IP`, which only Supabase's proxy can set. Elsewhere it is the last address of
 * `X-Forwarded-For`, which the nearest proxy adds: trust it as much as that proxy.
 */
export function clientAddress(headers: Headers): string | undefined {
  const reported = headers.get("CF-Connecting-IP") ??
    headers.get("X-Forwarded-For")?.split(",").at(-1);
  return Address.safeParse(reported?.trim()).data;
}
