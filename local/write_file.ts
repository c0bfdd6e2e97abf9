/** Writes a text file whole or not at all: beside its place, then moved there. */
export async function writeFile(path: URL, text: string): Promise<void> {
  const unfinished = new URL(`${path.href}.unfinished`);
  await Deno.writeTextFile(unfinished, text);
  await Deno.rename(unfinished, path);
}
