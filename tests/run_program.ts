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
