// Needs a stack. Slow.

import { assertEquals } from "@std/assert";
import { it } from "@std/testing/bdd";
import { createHmac } from "node:crypto";
import { fileURLToPath } from "node:url";
import { Batch } from "../../supabase/functions/audit-log-streams/destinations/destination.ts";
import { Outgoing } from "../../supabase/functions/audit-log-streams/destinations/destination.ts";
import { newSigningSecret } from "../../supabase/functions/audit-log-streams/destinations/webhook.ts";
import { webhook } from "../../supabase/functions/audit-log-streams/destinations/webhook.ts";
import { newFolder } from "../helpers/cli.ts";

const RECEIVER = fileURLToPath(new URL("../../docs/examples/webhook/receive.mjs", import.meta.url));

/** Starts the example that docs/integrating.md shows, until it is disposed of. */
async function startReceiver(secret: string) {
  const folder = `${newFolder()}/received`;
  const process = new Deno.Command("node", {
    args: [RECEIVER, folder],
    env: { WEBHOOK_SECRET: secret, PORT: "0" },
    stdout: "piped",
  }).spawn();
  const reader = process.stdout.pipeThrough(new TextDecoderStream()).getReader();
  const { value = "" } = await reader.read();
  return {
    folder,
    url: `http://127.0.0.1:${value.match(/port (\d+)/)?.[1]}/`,
    async [Symbol.asyncDispose]() {
      process.kill();
      await reader.cancel();
      await process.status;
    },
  };
}

async function send({ url, ...init }: Outgoing): Promise<number> {
  const { status, body } = await fetch(url, init);
  await body?.cancel();
  return status;
}

it("docs/examples/webhook/receive.mjs keeps what was signed, once, also with the old secret during a rotation; refuses another secret, another body and an old request", async () => {
  const secret = newSigningSecret();
  await using receiver = await startReceiver(secret);
  const { folder, url } = receiver;
  const sign = (line: string, ...secrets: string[]) => {
    const batch: Batch = { what: "entries", lines: [line], number: 0, name: "", platform_id: "" };
    return webhook.build(batch, secrets, { kind: "webhook", url: new URL(url) });
  };
  const lines = ['{"n":9007199254740993}', '{"n":1.10}'];
  for (const line of [...lines, ...lines]) assertEquals(await send(await sign(line, secret)), 204);
  const files = Array.from(Deno.readDirSync(folder), ({ name }) => `${folder}/${name}`);
  assertEquals(files.map((file) => Deno.readTextFileSync(file).trimEnd()).sort(), lines.sort());
  assertEquals(await send(await sign("{}", newSigningSecret())), 401);

  const request = await sign("{}", newSigningSecret(), secret);
  assertEquals(await send(request), 204);
  assertEquals(await send({ ...request, body: request.body.map((byte) => byte ^ 1) }), 401);
  const { headers } = request;
  const time = `${Number(headers["webhook-timestamp"]) - 400}`;
  const key = atob(secret.replace("whsec_", ""));
  const signature = createHmac("sha256", key, { encoding: "latin1" })
    .update(`${headers["webhook-id"]}.${time}.{}\n`).digest("base64");
  const old = { "webhook-timestamp": time, "webhook-signature": `v1,${signature}` };
  assertEquals(await send({ ...request, headers: { ...headers, ...old } }), 401);
});
