import { stdFlags } from "./std.ts";

const COMMANDS = [
  ["fmt", "--check"],
  ["lint"],
  // Without the flags of the tests, Deno looks for JSR, which not every network reaches.
  ["check", "--quiet", ...await stdFlags(), "."],
];

for (const args of COMMANDS) {
  const cwd = new URL("../..", import.meta.url);
  const { success } = await new Deno.Command(Deno.execPath(), { args, cwd }).spawn().status;
  if (!success) Deno.exitCode = 1;
}
