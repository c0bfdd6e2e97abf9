// Receives the audit log from a webhook: verifies each request, and stores its body as a file of a folder.
//
//   WEBHOOK_SECRET=whsec_… PORT=8080 node receive.mjs FOLDER
//
// Put a proxy with TLS before it. It needs Node 22 or newer, and no package.

import { createHmac, timingSafeEqual } from "node:crypto";
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

const [folder = "."] = process.argv.slice(2);
const key = Buffer.from((process.env.WEBHOOK_SECRET ?? "").replace("whsec_", ""), "base64");
if (key.length < 16) throw new Error("WEBHOOK_SECRET must be the signing secret, whsec_…");
mkdirSync(folder, { recursive: true });

/** Older requests are refused: somebody who has seen one could send it again. */
const MOST_SECONDS = 300;
const MOST_BYTES = 2_000_000;

const server = createServer(async (request, response) => {
  const { status, text } = await receive(request).catch((error) => {
    console.error(error);
    // Any status but 2xx: the request comes again.
    return { status: 500 };
  });
  response.writeHead(status).end(text);
});
server.on("listening", () => console.log(`Listening on port ${server.address().port}`));
server.listen(process.env.PORT ?? 8080, "127.0.0.1");

async function receive(request) {
  const pieces = [];
  let bytes = 0;
  for await (const piece of request) {
    pieces.push(piece);
    bytes += piece.length;
    if (bytes > MOST_BYTES) return { status: 413 };
  }
  const body = Buffer.concat(pieces);
  if (!isGenuine(request.headers, body)) return { status: 401, text: "the signature is wrong\n" };
  // The id names the file, so a repeat writes the same one.
  const file = join(folder, `${request.headers["webhook-id"]}.ndjson`);
  writeFileSync(`${file}.new`, body, { flush: true });
  renameSync(`${file}.new`, file);
  // Now, and not before, the other side may forget it.
  return { status: 204 };
}

/** Whether the log has sent this body, just now. The body is the bytes as they came: parsing would change them. */
function isGenuine(headers, body) {
  const id = headers["webhook-id"] ?? "";
  const time = headers["webhook-timestamp"] ?? "";
  const isNow = Math.abs(Date.now() / 1000 - Number(time)) <= MOST_SECONDS;
  if (!isNow || !/^msg_\w{1,100}$/.test(id)) return false;
  const expected = createHmac("sha256", key).update(`${id}.${time}.`).update(body).digest();
  // During a rotation of the secret there are two signatures.
  return (headers["webhook-signature"] ?? "").split(" ").some((signature) => {
    const given = Buffer.from(signature.replace(/^v1,/, ""), "base64");
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
}
