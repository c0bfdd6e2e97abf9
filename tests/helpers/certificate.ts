import { runCommand } from "../../dev/local/run_command.ts";

export interface Certificate {
  /** In PEM. It is its own authority. */
  cert: string;
  key: string;
}

/** Makes a certificate for *.example.net. */
export async function makeCertificate(): Promise<Certificate> {
  const folder = await Deno.makeTempDir();
  const curve = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";
  const names = "-subj /CN=Test -addext subjectAltName=DNS:*.example.net";
  const leaf = "-addext basicConstraints=critical,CA:FALSE";
  await runCommand("openssl", {
    args: `req -x509 ${curve} ${names} ${leaf} -keyout key.pem -out cert.pem`.split(" "),
    cwd: folder,
  });
  const read = (name: string) => Deno.readTextFile(`${folder}/${name}.pem`);
  const [cert, key] = await Promise.all([read("cert"), read("key")]);
  await Deno.remove(folder, { recursive: true });
  return { cert, key };
}

/** Makes a private key as docs/operating.md does: P-256, PKCS #8 in base64. */
export async function newPrivateKey(): Promise<string> {
  const command = "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 |" +
    " openssl pkcs8 -topk8 -nocrypt -outform DER | openssl base64 -A";
  return await runCommand("sh", { args: ["-c", command] });
}
