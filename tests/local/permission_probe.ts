// Tries what malicious code could try in the function's process, and answers with the errors.
// edge_function_test.ts runs it.

const ATTEMPTS: Record<string, () => unknown> = {
  "read a file": () => Deno.readTextFile(new URL(import.meta.url)),
  "write a file": () => Deno.writeTextFile("permission_probe.txt", ""),
  "run a program": () => new Deno.Command(Deno.execPath(), { args: ["--version"] }).output(),
  "read another variable": () => Deno.env.get("HOME"),
  "load a library": () => Deno.dlopen("libc.so.6", {}),
  "learn the host's name": () => Deno.hostname(),
  // The port of Postgres, or any other: only the Data API's is allowed.
  "call a stranger": () => fetch("http://127.0.0.1:5432/"),
  "ask a name server": () => Deno.resolveDns("example.com", "A"),
  "listen on a port of its choice": () => Deno.listen({ hostname: "127.0.0.1", port: 19_999 }),
  // Builds the names at run time, because Deno loads literal imports before the process starts.
  "import from esm.sh": () => import(["https://esm.sh", "ms"].join("/")),
  // A package that no machine has in its cache.
  "import from npm": () => import(["npm:public-audit-log-has-no-such-package", "1.2.0"].join("@")),
};

Deno.serve(async () => {
  const errors: Record<string, string> = {};
  for (const [name, attempt] of Object.entries(ATTEMPTS)) {
    try {
      await attempt();
      errors[name] = "none";
    } catch (error) {
      errors[name] = String(error);
    }
  }
  return Response.json(errors);
});
