// Secrets of destinations, sealed by the console with ECDH on P-256, HKDF and AES-GCM. The database stores what only the
// function's private key opens. A secret is bound to its purpose: it does not open for another organization, kind or host.

const CURVE = { name: "ECDH", namedCurve: "P-256" } as const;
const DERIVE: KeyUsage[] = ["deriveBits"];

export interface Keys {
  byId: ReadonlyMap<string, CryptoKey>;
  /** Of the newest: `ID.POINT`. Secrets are sealed for it. */
  publicKey: string;
}

export function purposeOf(organizationId: string, { kind, url }: { kind: string; url: string }) {
  return `${organizationId} ${kind} ${new URL(url).host}`;
}

export async function seal(secret: string, publicKey: string, purpose: string): Promise<string> {
  const [id, point = ""] = publicKey.split(".");
  const theirs = await crypto.subtle.importKey("raw", toBytes(point), CURVE, false, []);
  const mine = await crypto.subtle.generateKey(CURVE, false, DERIVE);
  const key = await sharedKey(mine.privateKey, theirs, purpose);
  const iv = crypto.getRandomValues(new Uint8Array(12));
  const text = new TextEncoder().encode(secret);
  const sealed = await crypto.subtle.encrypt({ name: "AES-GCM", iv }, key, text);
  const ours = await crypto.subtle.exportKey("raw", mine.publicKey);
  return [id, toText(ours), toText(iv.buffer), toText(sealed)].join(".");
}

/** Opens a secret, in the function. Throws if it was sealed for another key or purpose, or was changed. */
export async function open(sealed: string, { byId }: Keys, purpose: string): Promise<string> {
  const [id = "", point = "", iv = "", message = ""] = sealed.split(".");
  const mine = byId.get(id);
  if (!mine) throw new Error("the secret is sealed for a key that this function does not have");
  try {
    const theirs = await crypto.subtle.importKey("raw", toBytes(point), CURVE, false, []);
    const key = await sharedKey(mine, theirs, purpose);
    const cipher = { name: "AES-GCM", iv: toBytes(iv) };
    return new TextDecoder().decode(await crypto.subtle.decrypt(cipher, key, toBytes(message)));
  } catch {
    throw new Error("the secret was sealed for another organization, kind or host: enter it again");
  }
}

/** Reads private keys (PKCS #8 in base64) that are separated by spaces, the newest last. Their ids follow from them. */
export async function readKeys(text: string): Promise<Keys> {
  const byId = new Map<string, CryptoKey>();
  let publicKey = "";
  for (const encoded of text.trim().split(/\s+/)) {
    const key = await crypto.subtle.importKey("pkcs8", toBytes(encoded), CURVE, true, DERIVE);
    const { x = "", y = "" } = await crypto.subtle.exportKey("jwk", key);
    const point = Uint8Array.from([4, ...toBytes(x), ...toBytes(y)]);
    const id = toText(await crypto.subtle.digest("SHA-256", point)).slice(0, 8);
    byId.set(id, key);
    publicKey = `${id}.${toText(point.buffer)}`;
  }
  return { byId, publicKey };
}

async function sharedKey(mine: CryptoKey, theirs: CryptoKey, purpose: string): Promise<CryptoKey> {
  const shared = await crypto.subtle.deriveBits({ name: "ECDH", public: theirs }, mine, 256);
  const material = await crypto.subtle.importKey("raw", shared, "HKDF", false, ["deriveKey"]);
  const info = new TextEncoder().encode(purpose);
  const hkdf = { name: "HKDF", hash: "SHA-256", salt: new Uint8Array(), info };
  const aes = { name: "AES-GCM", length: 256 };
  return await crypto.subtle.deriveKey(hkdf, material, aes, false, ["encrypt", "decrypt"]);
}

function toBytes(base64: string): Uint8Array<ArrayBuffer> {
  const text = atob(base64.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

function toText(bytes: ArrayBuffer): string {
  const text = Array.from(new Uint8Array(bytes), (byte) => String.fromCharCode(byte)).join("");
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
