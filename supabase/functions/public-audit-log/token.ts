import { sha256 } from "./sha256.ts";

const TOKEN = /^pck_[0-9A-Za-z]{38}$/;
const CHECKSUM_LENGTH = 6;
const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** The unchecked token of an `Authorization: Bearer …` header (RFC 6750 section 2.1), or `null`. */
export function bearerToken(authorization: string | null): string | null {
  return authorization?.match(/^bearer +(.*)$/i)?.[1] ?? null;
}

/**
 * Whether a token is `pck_`, 32 base62 characters and their checksum: the first 32 bits of SHA-256 over the 36 characters
 * before it, as 6 base62 characters. It proves nothing, and spares the database typing errors.
 */
export async function isWellFormed(token: string): Promise<boolean> {
  if (!TOKEN.test(token)) return false;
  const body = token.slice(0, -CHECKSUM_LENGTH);
  return token === body + base62(parseInt((await sha256(body)).slice(0, 8), 16));
}

function base62(value: number): string {
  let digits = "";
  for (let place = 0; place < CHECKSUM_LENGTH; place++) {
    digits = BASE62[value % BASE62.length] + digits;
    value = Math.floor(value / BASE62.length);
  }
  return digits;
}
