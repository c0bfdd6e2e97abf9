import { z } from "zod";

const Address = z.union([z.ipv4(), z.ipv6()]);

/**
 * The caller's address, for the record of who read the log; `undefined` when none is reported. On the
 * platform `CF-Connecting-IP`, which its proxy sets and no caller can; elsewhere the last address of
 * `X-Forwarded-For`, which the nearest proxy adds: it is worth as much as that proxy is trusted.
 */
export function clientAddress(headers: Headers): string | undefined {
  const reported = headers.get("CF-Connecting-IP") ??
    headers.get("X-Forwarded-For")?.split(",").at(-1);
  return Address.safeParse(reported?.trim()).data;
}
