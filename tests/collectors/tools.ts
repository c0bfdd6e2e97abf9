import { it as test } from "@std/testing/bdd";
import { fileURLToPath } from "node:url";
import { writeOutOfOrder } from "../clients/log.ts";
import { startProxy, throughProxy } from "../clients/proxy.ts";
import type { Organization, Page } from "../helpers.ts";
import { runProgram } from "../run_program.ts";

const DATA = fileURLToPath(new URL("../../local/data/collectors", import.meta.url));

/**
 * The folder for a program of others that a script has built there, now or earlier, and `it` for tests that use it.
 * Where it cannot be built, these are skipped, and one line says why.
 */
export async function built(name: string, script: string) {
  const folder = `${DATA}/${name}`;
  if (await Deno.stat(`${folder}/built`).then(() => true, () => false)) return { folder, it: test };
  await Deno.mkdir(folder, { recursive: true });
  const { code, stderr } = await runProgram("sh", { args: ["-ec", script], cwd: folder });
  if (code === 0) {
    await Deno.writeTextFile(`${folder}/built`, "");
    return { folder, it: test };
  }
  console.log(`Skipped: ${name} could not be built: ${stderr.trim().split("\n").at(-1)}`);
  return { folder, it: test.skip };
}

/** The path of a file in examples/. */
export function example(path: string): string {
  return fileURLToPath(new URL(`../../examples/${path}`, import.meta.url));
}

/** What a collector is started with. */
export type Start = (url: string, organization: Organization) => Deno.Command;

/**
 * Runs a collector three times, and kills it: as soon as it asks for the second page, and then twice when it has caught
 * up beside writers and asked again. Returns how long it paused when caught up, in milliseconds.
 */
export async function followThroughKills(organization: Organization, start: Start) {
  const pauses: number[] = [];
  let caughtUpAt: number | undefined;
  let isWritten = false;
  let done = Promise.withResolvers<void>();
  await using api = startProxy(async (number, forward) => {
    const [now, isLast] = [performance.now(), isWritten];
    if (caughtUpAt !== undefined) pauses.push(now - caughtUpAt);
    const response = await forward();
    const { items = [], has_more = true }: Partial<Page> = await response.clone().json();
    caughtUpAt = has_more ? undefined : now;
    if (number === 2 || isLast && items.length === 0 && !has_more) done.resolve();
    return throughProxy(response, api);
  });
  for (let run = 0; run < 3; run++) {
    [caughtUpAt, isWritten, done] = [undefined, false, Promise.withResolvers<void>()];
    const collector = start(api.url, organization).spawn();
    if (run > 0) await writeOutOfOrder(organization, 5);
    isWritten = true;
    await done.promise;
    collector.kill("SIGKILL");
    await collector.status;
  }
  return pauses;
}
