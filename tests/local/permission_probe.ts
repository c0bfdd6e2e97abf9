// Code that should not be in the function's process: what could it do there? Run by
// edge_function_test.ts; answers /?attempt=… with the error, or with "done".

const ATTEMPTS: Record<string, (stranger: string) => unknown> = {
  "read a file": () => Deno.readTextFile(new URL(import.meta.url)),
  "read a file by way of Node": async () => (await import("node:fs")).readFileSync("/etc/hosts"),
  "write a file": () => Deno.writeTextFile("permission_probe.txt", ""),
  "run a program": () => new Deno.Command(Deno.execPath(), { args: ["--version"] }).output(),
  "signal a process": () => Deno.kill(Deno.ppid, "SIGCONT"),
  "read another variable": () => Deno.env.get("HOME"),
  "read all variables": () => Deno.env.toObject(),
  "load a library": () => Deno.dlopen("libc.so.6", {}),
  "learn the host's name": () => Deno.hostname(),
  "call a stranger": (stranger) => fetch(`http://${stranger}/`),
  "connect to a stranger": (stranger) => Deno.connect({ port: Number(stranger.split(":")[1]) }),
  "ask a name server": () => Deno.resolveDns("example.com", "A"),
  "listen on a port of its choice": () => Deno.listen({ hostname: "127.0.0.1", port: 19_999 }),
  "listen for other machines": () => Deno.listen({ hostname: "0.0.0.0", port: 0 }),
  // The names are put together here: Deno loads an import that it can read before the process starts.
  "import from a stranger": (stranger) => import(`http://${stranger}/x.ts`),
  "import from esm.sh": () => import(["https://esm.sh", "ms"].join("/")),
  "import from GitHub": () => import(["https://raw.githubusercontent.com", "a/b/x.ts"].join("/")),
  // A package that no machine has in its cache.
  "import from npm": () => import(["npm:public-audit-log-has-no-such-package", "1.2.0"].join("@")),
};

Deno.serve(async (request) => {
  const parameters = new URL(request.url).searchParams;
  try {
    await ATTEMPTS[parameters.get("attempt") ?? ""]?.(parameters.get("stranger") ?? "");
    return new Response("done");
  } catch (error) {
    return new Response(String(error));
  }
});
