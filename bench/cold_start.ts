import { startEdgeFunction } from "../local/edge_function.ts";
import edgeFunction from "../supabase/functions/public-audit-log/deno.json" with { type: "json" };
import { byTurns, median, printHead, printRow } from "./report.ts";

/** Packages that a bare `Deno.serve` is measured with. */
const PACKAGES = {
  "bare Deno.serve": null,
  "and zod": edgeFunction.imports.zod,
  "and supabase-js": edgeFunction.imports["@supabase/supabase-js"],
};

/** Measures new processes by turns, and prints the median and the spread of each. */
export async function measureColdStarts(rounds: number): Promise<void> {
  const folder = new URL("data/cold_start/", import.meta.url);
  await Deno.mkdir(folder, { recursive: true });
  const mains = new Map<string, URL>();
  for (const [name, specifier] of Object.entries(PACKAGES)) {
    const main = new URL(`${mains.size}.ts`, folder);
    const imports = specifier ? `import "${specifier}";\n` : "";
    await Deno.writeTextFile(main, `${imports}Deno.serve(() => new Response(""));\n`);
    mains.set(name, main);
  }
  mains.set(
    "this function",
    new URL("../supabase/functions/public-audit-log/index.ts", import.meta.url),
  );

  const seen = await byTurns(rounds, Array.from(mains), async ([, main]) => {
    const start = performance.now();
    await using process = await startEdgeFunction({
      apiUrl: "http://127.0.0.1:1",
      secretKey: "none",
      main,
      log: () => {},
    });
    await (await fetch(`http://127.0.0.1:${process.port}/public-audit-log`)).body?.cancel();
    return performance.now() - start;
  });
  printHead("process", "median", "lowest", "highest");
  for (const [[name], times] of seen) {
    const figures = [median(times), Math.min(...times), Math.max(...times)];
    printRow(name, ...figures.map((figure) => figure.toFixed(0)));
  }
}
