import { startEdgeFunction } from "../local/edge_function.ts";
import edgeFunction from "../supabase/functions/public-audit-log/deno.json" with { type: "json" };
import { median } from "./load.ts";

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

  const seen = new Map<string, number[]>();
  // The first round fills caches and is not counted.
  for (let round = 0; round <= rounds; round++) {
    for (const [name, main] of mains) {
      const start = performance.now();
      await using process = await startEdgeFunction({
        apiUrl: "http://127.0.0.1:1",
        secretKey: "none",
        main,
        log: () => {},
      });
      await (await fetch(`http://127.0.0.1:${process.port}/public-audit-log`)).body?.cancel();
      if (round) seen.set(name, [...seen.get(name) ?? [], performance.now() - start]);
    }
  }
  console.log("\n| process | median | lowest | highest |\n| --- | ---: | ---: | ---: |");
  for (const [name, times] of seen) {
    const [low, high] = [Math.min(...times), Math.max(...times)];
    console.log(
      `| ${name} | ${median(times).toFixed(0)} | ${low.toFixed(0)} | ${high.toFixed(0)} |`,
    );
  }
}
