import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import postgres from "postgres";
import { tokenHash } from "../../supabase/functions/public-audit-log/token.ts";
import { freePort } from "../../local/free_port.ts";
import type { Page } from "../../supabase/functions/public-audit-log/page_schema.ts";
import { type Run, valueOf } from "../project.ts";
import { runDeno, runProgram } from "../run_program.ts";

// Runs the commands that a newcomer types. They have ports and a data folder of their own, so that a developer's start
// can run beside them. The tests share one start, because a start takes seconds.

const apiPort = freePort();
const databasePort = freePort();
const dataDir = Deno.makeTempDirSync();
const FUNCTION = "public-audit-log/index.ts";
const POSTGREST = "postgrest";

/** The latest start, and what it has printed so far. */
let process: Deno.ChildProcess | undefined;
let output = "";

function argumentsOf(task: string): string[] {
  const main = new URL(`../../tasks/${task}.ts`, import.meta.url).href;
  const ports = [`--api-port=${apiPort}`, `--db-port=${databasePort}`];
  return ["run", "--allow-all", main, ...ports, `--data-dir=${dataDir}`];
}

/** Runs `deno task …` to its end. Returns its exit code and all that it printed. */
async function run(task: string) {
  const { code, stdout, stderr } = await runDeno({ args: argumentsOf(task) });
  return { code, text: stdout + stderr };
}

/** Runs `deno task start`. Resolves when it has printed everything. */
async function start(): Promise<void> {
  const options = { args: argumentsOf("start"), stdout: "piped", stderr: "piped" } as const;
  const started = new Deno.Command(Deno.execPath(), options).spawn();
  process = started;
  output = "";
  const errors = new Response(started.stderr).text();
  const ready = Promise.withResolvers<void>();
  (async () => {
    for await (const text of started.stdout.pipeThrough(new TextDecoderStream())) {
      output += text;
      if (output.includes("logged below")) ready.resolve();
    }
    ready.reject(new Error(`start ended: ${output}${await errors}`));
  })();
  await ready.promise;
}

async function stop(signal: Deno.Signal): Promise<number | undefined> {
  process?.kill(signal);
  return (await process?.status)?.code;
}

async function status(): Promise<Record<string, string>> {
  const { text } = await run("status");
  return Object.fromEntries(
    Array.from(text.matchAll(/^(\w+)="(.*)"$/gm), ([, name, value]) => [name, value]),
  );
}

async function runExample(): Promise<Page> {
  const example = output.match(/^ *curl "(?:.*\\\n)*.*/m)?.[0] ?? "";
  return JSON.parse((await runProgram("sh", { args: ["-c", example] })).stdout);
}

async function query<T>(ask: (run: Run) => Promise<T>): Promise<T> {
  const url = `postgresql://postgres:postgres@127.0.0.1:${databasePort}/postgres`;
  const connection = postgres(url, { max: 1 });
  return await ask(connection).finally(() => connection.end());
}

/** Returns a checksum of the demonstration data. It leaves out the numbers of transactions, which differ. */
async function checksum(run: Run): Promise<string> {
  return await valueOf(run`
    select md5(string_agg(audit_log_private.entry_line(e), ' ' order by e.created_at, e.id))
    from audit_log.audit_entries e join audit_log.organizations o on o.id = e.organization_id
    where o.name in ('Analytical Engines', 'Compiler Works')`);
}

/** Finds the process id of a child of the start by a part of its command. */
async function processOf(command: string): Promise<string> {
  const { stdout } = await runProgram("ps", { args: ["-eo", "ppid,pid,args"] });
  const [, pid = ""] = stdout.match(new RegExp(`^ *${process?.pid} +(\\d+) .*${command}`, "m")) ??
    [];
  assert(pid, `${command} has no process of its own`);
  return pid;
}

/** Whether a process has ended. It may be a zombie, for which nobody has waited. */
async function isGone(pid: string): Promise<boolean> {
  const { stdout } = await runProgram("ps", { args: ["-o", "stat=", "-p", pid] });
  return /^(Z.*\s*)?$/.test(stdout);
}

async function openPorts(): Promise<number[]> {
  const open: number[] = [];
  for (const port of [apiPort, databasePort]) {
    const connection = await Deno.connect({ hostname: "127.0.0.1", port }).catch(() => null);
    if (connection) open.push(port);
    connection?.close();
  }
  return open;
}

describe("deno task start, where it cannot run,", () => {
  it("says which port is taken and which option to give", async () => {
    for (const [option, port] of Object.entries({ "api-port": apiPort, "db-port": databasePort })) {
      using _listener = Deno.listen({ hostname: "127.0.0.1", port });
      const { code, text } = await run("start");
      assertEquals(code, 1);
      assertStringIncludes(text, `Port ${port} is taken`);
      const [, other] = text.match(new RegExp(`--${option}=(\\d+)`)) ?? [];
      assert(other && Number(other) !== port, text);
    }
  });
});

describe("deno task start", () => {
  beforeAll(start);
  afterAll(async () => {
    // It may have ended already.
    await stop("SIGKILL").catch(() => {});
    await run("reset");
  });

  it("prints an example that works, and status prints addresses and keys for the request in README.md", async () => {
    const page = await runExample();
    assertEquals([page.items.length, page.end], [2, new Date().toISOString().slice(0, 10)]);
    const consoleUrl = output.match(/Console +(http\S+)/)?.[1] ?? "none";
    assertStringIncludes(await (await fetch(consoleUrl)).text(), "<title>Audit log console");

    const readme = await Deno.readTextFile(new URL("../../README.md", import.meta.url));
    const [, command = "", shown = ""] = readme.match(
      /^eval .*\n(curl [^]*?)^```\n+```json\n([^]*?)^```$/m,
    ) ?? [];
    const env = await status();
    const names = ["API_URL", "DB_URL", "PUBLISHABLE_KEY", "SECRET_KEY", "DEMO_API_KEY"];
    assertEquals(Object.keys(env), names);
    const { stdout } = await runProgram("sh", { args: ["-c", command], env });
    const { items, total: _, ...answer } = JSON.parse(stdout);
    const { items: shownItems, total: __, ...shownAnswer } = JSON.parse(shown);
    assertEquals(answer, shownAnswer);
    // The demonstration data ends today. Some day it will no longer reach back to the days of the page.
    for (const item of items) assertEquals(Object.keys(item), Object.keys(shownItems[0]));
  });

  it("keeps its data when it is killed, and leaves no process behind", async () => {
    const before = await query(checksum);
    const { DEMO_API_KEY: key = "none" } = await status();
    const orphans = [await processOf(FUNCTION), await processOf(POSTGREST)];
    await query((run) => run`update audit_log_private.api_keys set revoked_at = now()`);
    await stop("SIGKILL");
    assertEquals(await openPorts(), [databasePort]);

    await start();
    assertStringIncludes(output, "An earlier run was killed");
    assertEquals(await query(checksum), before);
    for (const orphan of orphans) assert(await isGone(orphan), `${orphan} is left behind`);
    // The query above revoked the key, so this start has made another.
    assert(!output.includes(key));
    assertEquals((await runExample()).items.length, 2);
  });

  // The last test ends the start that the others use.

  it("stops on Ctrl-C, having logged each request in one line without the token or its hash", async () => {
    const token = output.match(/pck_\w+/)?.[0] ?? "";
    const logged = output.indexOf("logged below");
    await runExample();
    const typo = `${token.slice(0, -1)}${token.endsWith("0") ? "1" : "0"}`;
    const url = `http://127.0.0.1:${apiPort}/functions/v1/public-audit-log`;
    const headers = { Authorization: `Bearer ${typo}` };
    assertEquals(await (await fetch(url, { headers })).json().then(({ status }) => status), 401);
    const pid = await processOf(POSTGREST);
    assertEquals(await stop("SIGINT"), 0);
    assert(await isGone(pid), "PostgREST still runs");
    assertEquals(await openPorts(), []);
    assertEquals((await run("status")).code, 1);

    const written = output.slice(logged);
    const lines = written.match(/^\{.*\}$/gm)?.map((line) => JSON.parse(line));
    assertEquals(lines?.map(({ status }) => status).slice(-2), [200, 401]);
    assert(!written.includes(token.slice(4)) && !written.includes(typo.slice(4)), written);
    assert(!written.includes(await tokenHash(token)), written);
  });
});
