import { afterAll } from "@std/testing/bdd";
import { fileURLToPath } from "node:url";
import { type Ended, runDeno, runProgram } from "../run_program.ts";

const BUILD = fileURLToPath(new URL("../../tasks/build_cli.ts", import.meta.url));

const temporary = Deno.makeTempDirSync();
afterAll(() => Deno.remove(temporary, { recursive: true }));

/** Makes a folder that is removed after the tests. */
export function newFolder(): string {
  return Deno.makeTempDirSync({ dir: temporary });
}

/** Installs the package as people do: builds it, packs it, and installs it into an empty folder. */
export async function installCli(...withPackages: string[]): Promise<string> {
  const folder = newFolder();
  await mustRun(runDeno({ args: ["run", "--allow-all", BUILD, `${folder}/built`] }));
  const npm = (...args: string[]) => mustRun(runProgram("npm", { args, cwd: folder }));
  const { stdout } = await npm("pack", "--silent", "./built");
  await npm("install", "--no-audit", "--no-fund", `./${stdout.trim()}`, ...withPackages);
  return folder;
}

/** Returns the output of a program, which must succeed. */
export async function mustRun(ended: Promise<Ended>): Promise<Ended> {
  const { code, stdout, stderr } = await ended;
  if (code !== 0) throw new Error(`exit code ${code}: ${stdout}${stderr}`);
  return { code, stdout, stderr };
}
