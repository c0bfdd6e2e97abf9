// Needs stacks of its own.

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import postgres from "postgres";
import { freePort } from "../../dev/local/free_port.ts";
import type { Page } from "../../supabase/functions/public-audit-log/page_schema.ts";
import { addOrganization, callAs, insertEntry, valueOf } from "../../dev/harness/project.ts";
import { purposeOf, seal } from "../../supabase/functions/audit-log-streams/sealed.ts";
import { newSigningSecret } from "../../supabase/functions/audit-log-streams/destinations/webhook.ts";
import { serveOnLoopback } from "../helpers/loopback.ts";
import { runDeno, runProgram } from "../helpers/run_program.ts";

// Runs the commands that a newcomer types. They have ports and a data folder of their own, so that a developer's start
// can run beside them. The tests share one start, because a start takes seconds.

const ROOT = new URL("../../", import.meta.url);
const apiPort = freePort();
const databasePort = freePort();
const dataDir = Deno.makeTempDirSync({ prefix: "audit log " });

/** The latest start, what it has printed so far, and when it and all below it have ended. */
let process: Deno.ChildProcess | undefined;
let output = "";
let ended: Promise<void> | undefined;

const OPTIONS = [`--api-port=${apiPort}`, `--db-port=${databasePort}`, `--data-dir=${dataDir}`];

function argumentsOf(task: string): string[] {
  return ["run", "--allow-all", new URL(`dev/tasks/${task}.ts`, ROOT).href, ...OPTIONS];
}

/** Runs `deno task …` to its end. Returns its exit code and all that it printed. */
async function run(task: string, ...more: string[]) {
  const { code, stdout, stderr } = await runDeno({ args: [...argumentsOf(task), ...more] });
  return { code, text: stdout + stderr };
}

/** Runs `deno task start`, by itself or with another program. Resolves when it has printed everything. */
async function start(
  program = Deno.execPath(),
  options: Deno.CommandOptions = { args: argumentsOf("start") },
): Promise<void> {
  const piped = { stdout: "piped", stderr: "piped" } as const;
  const started = new Deno.Command(program, { ...options, ...piped }).spawn();
  process = started;
  output = "";
  const errors = new Response(started.stderr).text();
  const ready = Promise.withResolvers<void>();
  ended = (async () => {
    for await (const text of started.stdout.pipeThrough(new TextDecoderStream())) {
      output += text;
      if (output.includes("logged below")) ready.resolve();
    }
    ready.reject(new Error(`start ended: ${output}${await errors}`));
  })();
  ready.promise.catch(() => {});
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

async function query<T>(ask: (run: postgres.Sql) => PromiseLike<T>): Promise<T> {
  const url = `postgresql://postgres:postgres@127.0.0.1:${databasePort}/postgres`;
  const connection = postgres(url, { max: 1 });
  return await Promise.resolve(ask(connection)).finally(() => connection.end());
}

/** Whether somebody listens on the port of the API, and on that of Postgres. */
async function openPorts(hostname = "127.0.0.1"): Promise<boolean[]> {
  return await Promise.all([apiPort, databasePort].map(async (port) => {
    const connection = await Deno.connect({ hostname, port }).catch(() => null);
    connection?.close();
    return connection !== null;
  }));
}

describe("deno task start", () => {
  beforeAll(() => start());
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

    const readme = await Deno.readTextFile(new URL("README.md", ROOT));
    const example = /^eval .*\n(printf [^]*?)^```\n+```text\n(\d+\n[^]*?)^```$/m;
    const [, command = "", shown = ""] = readme.match(example) ?? [];
    const env = await status();
    const names = ["API_URL", "DB_URL", "PUBLISHABLE_KEY", "SECRET_KEY"];
    assertEquals(Object.keys(env), [...names, "AUDIT_LOG_URL", "AUDIT_LOG_API_KEY"]);
    const { stdout } = await runProgram("sh", { args: ["-c", command], env });
    /** The total, and the names of the entry's fields and of those of its data. */
    const read = (text: string) => {
      const [total, entry = "{}"] = text.split(/(?<=^\d+)\n/);
      const { data = {}, ...fields } = JSON.parse(entry) ?? {};
      return { total, fields: [Object.keys(fields), Object.keys(data)] };
    };
    const { total = "", fields } = read(stdout);
    assertMatch(total, /^\d+$/);
    // The demonstration data ends today. Some day it will no longer reach back to the days of the page.
    if (total !== "0") assertEquals(fields, read(shown).fields);
  });

  it("delivers a stream to a server on this machine: a test, then the entries, both signed", async () => {
    const arrived = Promise.withResolvers<void>();
    const received: unknown[] = [];
    await using receiver = serveOnLoopback(async (request) => {
      const { headers } = request;
      const [, id] = (await request.text()).match(/"agent_name":"([^"]*)"/) ?? [];
      received.push([headers.get("audit-log-content"), id, headers.has("webhook-signature")]);
      if (received.length === 2) arrived.resolve();
      return new Response();
    });
    const url = receiver.url.replace("http://127.0.0.1", "https://localhost");
    const { API_URL } = await status();
    const answer = await fetch(`${API_URL}/functions/v1/audit-log-streams`);
    assertEquals(answer.headers.get("Access-Control-Allow-Origin"), "*");
    const { public_key } = await answer.json();
    await query(async (run) => {
      const { id } = await addOrganization(run);
      await insertEntry(run, id, { agent_name: "Streamed" });
      await run`
        insert into audit_log.organization_members (organization_id, user_id, role)
        values (${id}, 'streams', 'admin')`;
      const destination = { kind: "webhook", url };
      const sealed = await seal(newSigningSecret(), public_key, purposeOf(id, destination));
      const stream = JSON.stringify({ name: "Here", destination, sealed, start: "beginning" });
      await callAs(run, "streams", `create_stream('${id}', '${stream}')`);
    });
    await arrived.promise;
    assertEquals(received, [["test", "Audit log streams", true], ["entries", "Streamed", true]]);
  });

  it("listens on loopback only, says which option to give where a port is taken, and refuses a second start with the same data, and says how to find the first", async () => {
    const others = Deno.networkInterfaces()
      .filter(({ family, address }) => family === "IPv4" && !address.startsWith("127."));
    for (const { address } of others) assertEquals(await openPorts(address), [false, false]);
    const folder = await Deno.makeTempDir();
    const { code, text } = await run("start", `--data-dir=${folder}`);
    await Deno.remove(folder, { recursive: true });
    assertEquals(code, 1);
    assertStringIncludes(text, `Port ${apiPort} is taken. Choose another, as with --api-port=`);
    for (const { code, text } of await Promise.all([run("start"), run("start")])) {
      assertEquals(code, 1);
      assertStringIncludes(text, "Already running. Its addresses: ");
    }
    assertEquals((await run("reset")).code, 1);
  });

  it("keeps its data when it is killed", async () => {
    const countEntries = () =>
      query((run) => valueOf<string>(run`select count(*) from audit_log.audit_entries`));
    const before = await countEntries();
    const { AUDIT_LOG_API_KEY: key = "none" } = await status();
    await query((run) => run`update audit_log_private.api_keys set revoked_at = now()`);
    await stop("SIGKILL");
    assertEquals(await openPorts(), [false, true]);

    await start();
    assertEquals(await countEntries(), before);
    // The query above revoked the key, so this start has made another.
    assert(!output.includes(key));
    assertEquals((await runExample()).items.length, 2);
  });

  // This ends the start that the others use.
  it("stops on Ctrl-C", async () => {
    assertEquals(await stop("SIGINT"), 0);
    assertEquals(await openPorts(), [false, false]);
    assertEquals((await run("status")).code, 1);
  });

  it("stops when npx gets SIGTERM, which ends only itself and the shell that it runs", async () => {
    const script = `"$0" task start "$@" & echo "pid $!"; wait`;
    const env = { npm_command: "exec" };
    await start("sh", { args: ["-c", script, Deno.execPath(), ...OPTIONS], env, cwd: ROOT });
    await stop("SIGTERM");
    let isLate = false;
    const late = setTimeout(() => {
      isLate = true;
      Deno.kill(Number(output.match(/^pid (\d+)/m)?.[1]), "SIGTERM");
    }, 20_000);
    await ended;
    clearTimeout(late);
    assertEquals([isLate, ...await openPorts()], [false, false, false]);
  });
});

for (const task of ["tasks/start", "tasks/status", "tasks/reset", "tasks/test", "bench/bench"]) {
  it(`deno task ${task.split("/")[1]} prints its options, given --help or -h, or a misspelt option, which it names. It does nothing else`, async () => {
    const main = new URL(`dev/${task}.ts`, ROOT).href;
    const [help, short, misspelt] = await Promise.all(
      ["--help", "-h", "--hepl"].map((option) =>
        runDeno({ args: ["run", "--allow-all", main, option] })
      ),
    );
    assertMatch(help?.stdout ?? "", /^\S.*(\n\n)( +-.*\n)+ +-h, --help +prints this\n$/);
    assertEquals(short, help);
    assertEquals([help?.code, help?.stderr, misspelt?.code], [0, "", 2]);
    const [reason, usage] = misspelt?.stderr.split(/\n\n([^]*)/) ?? [];
    assertStringIncludes(reason ?? "", "'--hepl'");
    assertEquals([usage, misspelt?.stdout], [help?.stdout, ""]);
  });
}
