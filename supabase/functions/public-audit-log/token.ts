import { sha256 } from "./sha256.ts";

const TOKEN = /^pck_[0-9A-Za-z]{38}$/;
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
  const body = token.slice(0, -6);
  const sum = parseInt((await sha256(body)).slice(0, 8), 16);
  const digits = [5, 4, 3, 2, 1, 0].map((place) => BASE62[Math.floor(sum / 62 ** place) % 62]);
  return token === body + digits.join("");
}
