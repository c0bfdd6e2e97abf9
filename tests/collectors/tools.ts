import { assert, assertEquals } from "@std/assert";
import { it as test } from "@std/testing/bdd";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { idsOfLog, newFilledLog, writeOutOfOrder } from "../clients/log.ts";
import { startProxy, throughProxy } from "../clients/proxy.ts";
import type { Page } from "../helpers.ts";
import { runProgram } from "../run_program.ts";

const DATA = fileURLToPath(new URL("../../local/data/collectors", import.meta.url));

/**
 * Builds somebody else's program with a script, unless an earlier run has built it. Returns its folder,
 * and `it` for tests that use it. Where the script fails, these tests are skipped, and one line says why.
 */
export async function built(name: string, script: string) {
  const folder = `${DATA}/${name}`;
  await Deno.mkdir(folder, { recursive: true });
  const once = `[ ! -e built ] || exit 0\n${script}\ntouch built`;
  const { code, stderr } = await runProgram("sh", { args: ["-ec", once], cwd: folder });
  if (code === 0) return { folder, it: test };
  console.log(`Skipped: ${name} could not be built: ${stderr.trim().split("\n").at(-1)}`);
  return { folder, it: test.skip };
}

/** The path of a file in examples/. */
export function example(path: string): string {
  return fileURLToPath(new URL(`../../examples/${path}`, import.meta.url));
}

interface FollowOptions {
  /** Its configuration in examples/. */
  config: string;
  /** Starts it in a folder with the configuration. It writes its files `audit…` there. */
  command: (folder: string) => string[];
  /** When it has caught up, it pauses at least so many milliseconds. */
  pause: number;
}

/**
 * Lets a collector follow the log, and kills it three times: first when it asks for the second page,
 * then twice when it has caught up beside writers and asked again. Asserts that it delivers every
 * entry at least once, and that it pauses when it has caught up.
 */
export async function assertFollows({ config, command, pause }: FollowOptions): Promise<void> {
  const organization = await newFilledLog(1_500);
  const folder = await Deno.makeTempDir();
  await Deno.copyFile(example(config), `${folder}/${basename(config)}`);
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
  const [program = "", ...args] = command(folder);
  for (let run = 0; run < 3; run++) {
    [caughtUpAt, isWritten, done] = [undefined, false, Promise.withResolvers<void>()];
    const collector = new Deno.Command(program, {
      args,
      env: {
        AUDIT_LOG_URL: api.url,
        AUDIT_LOG_API_KEY: organization.token,
        AUDIT_LOG_FOLDER: folder,
        AUDIT_LOG_STATE: folder,
        AUDIT_LOG_FILE: `${folder}/audit.ndjson`,
      },
      cwd: folder,
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn();
    if (run > 0) await writeOutOfOrder(organization, 5);
    isWritten = true;
    // If it ends by itself, kill() below fails.
    await Promise.race([done.promise, collector.status]);
    collector.kill("SIGKILL");
    await collector.status;
  }

  const lines = Array.from(Deno.readDirSync(folder), ({ name }) => name)
    .filter((name) => name.startsWith("audit"))
    .flatMap((name) => Deno.readTextFileSync(`${folder}/${name}`).trim().split("\n"));
  const ids = lines.map((line) => {
    // Filebeat puts the entry into a field.
    const { audit_log, id } = JSON.parse(line);
    return audit_log?.id ?? id;
  });
  assertEquals([...new Set(ids)].sort(), await idsOfLog(organization));
  assert(pauses.every((each) => each > pause), `${pauses}`);
}
