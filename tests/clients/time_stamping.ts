import { serveOnLoopback } from "../loopback.ts";
import { runProgram } from "../run_program.ts";
import { mustRun, newFolder } from "./cli.ts";

/** Makes a certificate that may sign time stamps, and what `openssl ts` needs to sign with it. */
const SETUP = `
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out tsa.pem -days 2 -subj /CN=Time \\
  -addext extendedKeyUsage=critical,timeStamping
echo 01 > serial
cat > tsa.conf <<END
[own]
serial = serial
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
END`;
const SIGN =
  "openssl ts -reply -config tsa.conf -section own -queryfile query -signer tsa.pem -inkey key.pem";
const REQUEST = `
printf %s "$1" | openssl ts -query -data /dev/stdin -sha256 -cert |
  curl --silent --show-error --fail --data-binary @- --output "$2" "$3"`;

/** Starts a time-stamping authority (RFC 3161) on loopback. */
export async function startTimeStamping() {
  const folder = newFolder();
  const run = (script: string, ...args: string[]) =>
    mustRun(runProgram("sh", { args: ["-ec", script, "sh", ...args], cwd: folder }));
  await run(SETUP);
  const server = serveOnLoopback(async (request) => {
    await Deno.writeFile(`${folder}/query`, await request.bytes());
    await run(`${SIGN} -out reply`);
    return new Response(await Deno.readFile(`${folder}/reply`));
  });
  return {
    ...server,
    /** The path of the certificates to trust. */
    certificates: `${folder}/tsa.pem`,
    /** Asks for a time stamp of a text. Returns the path of its file. */
    async stamp(text: string): Promise<string> {
      const file = `${newFolder()}/stamp.tsr`;
      await run(REQUEST, text, file, server.url);
      return file;
    },
  };
}
