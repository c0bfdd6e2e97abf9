import { type Loopback, serveOnLoopback } from "../loopback.ts";
import { runProgram } from "../run_program.ts";

/** Makes a certificate that may sign time stamps, and what `openssl ts` needs to sign with it. */
const SETUP = `
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out tsa.pem -days 2 -subj /CN=Time \\
  -addext extendedKeyUsage=critical,timeStamping 2> errors || { cat errors >&2; exit 1; }
echo 01 > serial
cat > tsa.conf <<END
[tsa]
default_tsa = own
[own]
serial = serial
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
ess_cert_id_alg = sha256
END`;

/** Starts a time-stamping authority (RFC 3161) on loopback. Returns also the certificate to trust. */
export async function startTimeStamping(): Promise<Loopback & { certificate: string }> {
  const folder = await Deno.makeTempDir();
  const run = async (script: string) => {
    const { code, stderr } = await runProgram("sh", { args: ["-ec", script], cwd: folder });
    if (code !== 0) throw new Error(stderr);
  };
  await run(SETUP);
  const server = serveOnLoopback(async (request) => {
    await Deno.writeFile(`${folder}/query`, await request.bytes());
    await run(
      "openssl ts -reply -config tsa.conf -queryfile query -signer tsa.pem -inkey key.pem -out reply",
    );
    return new Response(await Deno.readFile(`${folder}/reply`));
  });
  return {
    ...server,
    certificate: await Deno.readTextFile(`${folder}/tsa.pem`),
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      await Deno.remove(folder, { recursive: true });
    },
  };
}

/** Asks an authority for a time stamp of a text. Returns the path of its file. */
export async function requestTimeStamp(url: string, text: string): Promise<string> {
  const make = 'printf %s "$1" | openssl ts -query -data /dev/stdin -sha256 -cert | base64 -w 0';
  const { stdout } = await runProgram("sh", { args: ["-c", make, "sh", text] });
  const body = Uint8Array.from(atob(stdout), (character) => character.charCodeAt(0));
  const file = await Deno.makeTempFile();
  await Deno.writeFile(file, await (await fetch(url, { method: "POST", body })).bytes());
  return file;
}
