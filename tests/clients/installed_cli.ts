import { afterAll } from "@std/testing/bdd";
import { fileURLToPath } from "node:url";
import { runDeno, runProgram } from "../run_program.ts";

const BUILD = fileURLToPath(new URL("../../tasks/build_cli.ts", import.meta.url));

/** Where the package is installed as people do: built, packed, and installed into an empty folder. */
export async function installCli(...withPackages: string[]): Promise<string> {
  const folder = await Deno.makeTempDir();
  afterAll(() => Deno.remove(folder, { recursive: true }));
  await mustRun(runDeno({ args: ["run", "--allow-all", BUILD, `${folder}/built`] }));
  await mustRun(runProgram("npm", { args: ["pack", "./built"], cwd: folder }));
  await Deno.mkdir(`${folder}/installed`);
  const tarball = Array.from(Deno.readDirSync(folder)).find(({ name }) => name.endsWith(".tgz"));
  await mustRun(runProgram("npm", {
    args: ["install", "--no-audit", "--no-fund", `../${tarball?.name}`, ...withPackages],
    cwd: `${folder}/installed`,
  }));
  return `${folder}/installed`;
}

async function mustRun(ended: ReturnType<typeof runProgram>): Promise<void> {
  const { code, stdout, stderr } = await ended;
  if (code !== 0) throw new Error(stdout + stderr);
}

/** The command on this machine's Node, on each Node that it is for, and on Deno. */
export function commandsOf(folder: string) {
  const main = `${folder}/node_modules/public-audit-log/dist/main.js`;
  return {
    Node: [`${folder}/node_modules/.bin/public-audit-log`],
    "Node 20": ["npx", "-y", "node@20.20.2", main],
    "Node 22": ["npx", "-y", "node@22.23.3", main],
    Deno: [Deno.execPath(), "run", "-A", main],
  };
}
