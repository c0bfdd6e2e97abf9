import { fileURLToPath } from "node:url";

/** The folder of this repository. */
export const ROOT = fileURLToPath(new URL("../..", import.meta.url));

export interface Ended {
  code: number;
  stdout: string;
  stderr: string;
}

export async function runProgram(program: string, options: Deno.CommandOptions): Promise<Ended> {
  return textOf(await new Deno.Command(program, options).output());
}

export async function runDeno(options: Deno.CommandOptions): Promise<Ended> {
  return await runProgram(Deno.execPath(), options);
}

export function textOf({ code, stdout, stderr }: Deno.CommandOutput): Ended {
  const decoder = new TextDecoder();
  return { code, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
}

/** Whether a program is there. If not, prints that tests are skipped, and where it comes from. */
export async function hasProgram(program: string, source: string): Promise<boolean> {
  const { code } = await runProgram(program, { args: ["--version"] }).catch(() => ({ code: -1 }));
  if (code !== 0) console.log(`Skipped: there is no ${program} (${source} has it)`);
  return code === 0;
}
