import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { createClient } from "@supabase/supabase-js";
import postgres from "postgres";
import { DEMO_EMAILS, DEMO_PASSWORD } from "../../tasks/demo.ts";
import { tokenHash } from "../../supabase/functions/public-audit-log/token.ts";
import { freePort } from "../../local/free_port.ts";
import { type Page, statusOnly, withKey } from "../helpers.ts";
import { runDeno, runProgram } from "../run_program.ts";

/**
 * The commands that a newcomer types, on ports and with a data folder of a test's own, so that they
 * can run beside a start of the developer's.
 */
class Machine {
  readonly apiPort = freePort();
  readonly databasePort = freePort();
  readonly #dataDir = Deno.makeTempDirSync();
  readonly #processes: Deno.ChildProcess[] = [];

  #args(task: string): string[] {
    return [
      "run",
      "--allow-all",
      new URL(`../../tasks/${task}.ts`, import.meta.url).href,
      `--api-port=${this.apiPort}`,
      `--db-port=${this.databasePort}`,
      `--data-dir=${this.#dataDir}`,
    ];
  }

  /** Runs `deno task …` to its end; its exit code and all that it printed. */
  async run(task: string, options: string[] = [], env: Record<string, string> = {}) {
    const { code, stdout, stderr } = await runDeno({
      args: [...this.#args(task), ...options],
      env,
    });
    return { code, text: stdout + stderr };
  }

  /** `deno task start`, when it has printed everything. */
  async start(): Promise<Start> {
    const process = new Deno.Command(Deno.execPath(), {
      args: this.#args("start"),
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    this.#processes.push(process);
    const errors = new Response(process.stderr).text();
    const started: Start = { process, output: "" };
    const ready = Promise.withResolvers<void>();
    (async () => {
      for await (const text of process.stdout.pipeThrough(new TextDecoderStream())) {
        started.output += text;
        if (started.output.includes("logged below")) ready.resolve();
      }
      ready.reject(new Error(`start ended: ${started.output}${await errors}`));
    })();
    await ready.promise;
    return started;
  }

  /** `deno task status`, by name. */
  async status(): Promise<Map<string, string>> {
    const { text } = await this.run("status");
    return new Map(Array.from(text.matchAll(/^(\w+)="(.*)"$/gm), ([, name, value]) => [
      name ?? "",
      value ?? "",
    ]));
  }

  /** The rows that a statement gives. */
  async query(statement: string): Promise<postgres.RowList<postgres.Row[]>> {
    const sql = postgres((await this.status()).get("DB_URL") ?? "");
    try {
      return await sql.unsafe(statement);
    } finally {
      await sql.end();
    }
  }

  /** The ports on which something listens. */
  async openPorts(): Promise<number[]> {
    const open: number[] = [];
    for (const port of [this.apiPort, this.databasePort]) {
      const connection = await Deno.connect({ hostname: "127.0.0.1", port }).catch(() => null);
      if (connection) open.push(port);
      connection?.close();
    }
    return open;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const process of this.#processes) {
      try {
        process.kill("SIGKILL");
      } catch {
        // Ended, as it should have.
      }
      await process.status;
    }
    await this.run("reset");
  }
}

interface Start {
  process: Deno.ChildProcess;
  /** All that it has printed so far. */
  output: string;
}

async function stop({ process }: Start, signal: Deno.Signal): Promise<number> {
  process.kill(signal);
  return (await process.status).code;
}

/** The processes of a start, by what is in their command. */
const FUNCTION = "public-audit-log/index.ts";
const POSTGREST = "postgrest";

/** A process of a start. */
async function processOf({ process }: Start, command: string): Promise<string | undefined> {
  const { stdout } = await runProgram("ps", { args: ["-eo", "ppid,pid,args"] });
  return stdout.match(new RegExp(`^ *${process.pid} +(\\d+) .*${command}`, "m"))?.[1];
}

/** Whether a process is gone, or a zombie that nobody has waited for. */
async function isGone(pid: string): Promise<boolean> {
  const { stdout } = await runProgram("ps", { args: ["-o", "stat=", "-p", pid] });
  return /^(Z.*\s*)?$/.test(stdout);
}

/** Runs the example that a start printed, as pasted into a shell. */
async function runExample({ output }: Start): Promise<Page> {
  const example = output.match(/^ *curl "(?:.*\\\n)*.*/m)?.[0] ?? "";
  return JSON.parse((await runProgram("sh", { args: ["-c", example] })).stdout);
}

/** A checksum of all entries of a machine's database. */
async function checksum(machine: Machine): Promise<string> {
  const [row] = await machine.query(`
    select md5(string_agg(e::text, ' ' order by organization_id, created_at, id)) as checksum
    from audit_log.audit_entries e`);
  return row?.["checksum"];
}

describe("deno task start", () => {
  // For the tests that leave them as they are: a start takes seconds.
  const machine = new Machine();
  const another = new Machine();
  let started: Start;
  beforeAll(async () => {
    [started] = await Promise.all([machine.start(), another.start()]);
  });
  afterAll(async () => {
    await machine[Symbol.asyncDispose]();
    await another[Symbol.asyncDispose]();
  });

  it("prints an example that shows a seeded log, and is described by status", async () => {
    const page = await runExample(started);
    assertEquals(page.items.length, 2);
    assertEquals(page.end, new Date().toISOString().slice(0, 10));
    const consoleUrl = started.output.match(/Console +(http\S+)/)?.[1] ?? "none";
    assertStringIncludes(await (await fetch(consoleUrl)).text(), "<title>Audit log console");
    assertMatch(started.output, /Data API \(PostgREST \d+\.\d+\S*\), Auth/);

    const status = await machine.status();
    const names = Array.from(status.keys()).join(" ");
    assertEquals(names, "API_URL DB_URL PUBLISHABLE_KEY SECRET_KEY DEMO_API_KEY");
    assertEquals(status.get("API_URL"), `http://127.0.0.1:${machine.apiPort}`);
    assertMatch(status.get("PUBLISHABLE_KEY") ?? "", /^sb_publishable_/);
    assertMatch(status.get("SECRET_KEY") ?? "", /^sb_secret_/);
    assertStringIncludes(started.output, status.get("DEMO_API_KEY") ?? "none");
  });

  it("answers the request in README.md as it shows", async () => {
    const readme = await Deno.readTextFile(new URL("../../README.md", import.meta.url));
    const [, command = "", shown = ""] = readme.match(
      /^eval .*\n(curl [^]*?)^```\n+```json\n([^]*?)^```$/m,
    ) ?? [];
    const { stdout } = await runProgram("sh", {
      args: ["-c", command],
      env: Object.fromEntries(await machine.status()),
    });
    const { items, total: _, ...page } = JSON.parse(stdout);
    const { items: shownItems, total: __, ...shownPage } = JSON.parse(shown);
    assertEquals(page, shownPage);
    // The demonstration data ends today: one day, it no longer has that of the page.
    for (const item of items) assertEquals(Object.keys(item), Object.keys(shownItems[0]));
  });

  it("refuses to run twice, or to be reset, on the data of a running one", async () => {
    const second = await machine.run("start");
    assertEquals(second.code, 1);
    assertStringIncludes(second.text, "Already running");
    assertEquals((await machine.run("reset")).code, 1);
  });

  it("seeds two organizations, each with an administrator and a year of entries up to today, sealed", async () => {
    const organizations = await machine.query(`
      select
        (select count(*)::int from audit_log.organization_members m
          where m.organization_id = o.id and m.role = 'admin') as admins,
        count(distinct e.action)::int as actions,
        count(*) between 2000 and 20000 as thousands,
        min(e.created_at) < now() - interval '360 days' as a_year,
        (max(e.created_at) at time zone 'UTC')::date = (now() at time zone 'UTC')::date as today,
        (select max(s.day) = (now() at time zone 'UTC')::date - 1 and count(*) > 250
          from audit_log_private.seals s where s.organization_id = o.id) as sealed
      from audit_log.organizations o join audit_log.audit_entries e on e.organization_id = o.id
      group by o.id`);
    const expected = [1, 4, true, true, true, true];
    assertEquals(organizations.map((row) => Object.values(row)), [expected, expected]);

    const status = await machine.status();
    for (const email of DEMO_EMAILS) {
      const client = createClient(
        status.get("API_URL") ?? "",
        status.get("PUBLISHABLE_KEY") ?? "",
        { auth: { persistSession: false, autoRefreshToken: false } },
      );
      const { data } = await client.auth.signInWithPassword({ email, password: DEMO_PASSWORD });
      assertEquals(data.user?.email, email);
    }
  });

  it("seeds the same on every machine", async () => {
    assertEquals(await checksum(another), await checksum(machine));
  });

  it("logs the words of others bounded and without control characters", async () => {
    const logged = started.output.length;
    const secretKey = (await machine.status()).get("SECRET_KEY") ?? "";
    const words = `\u001b[31m\n\u009b${"x".repeat(10_000)}`;
    const id = encodeURIComponent(`eq.${words}`);
    const url = `http://127.0.0.1:${machine.apiPort}/rest/v1/organizations?id=${id}`;
    const headers = { apikey: secretKey, "Accept-Profile": "audit_log" };
    assertEquals(await statusOnly(fetch(url, { headers })), 400);
    // A request after it: when its line is there, the other one is.
    await runExample(started);
    while (!/"status":200[^\n]*\n$/.test(started.output)) {
      await new Promise((next) => setTimeout(next));
    }
    const lines = started.output.slice(logged).split("\n");
    assertEquals(lines.filter((line) => line.length > 2_001 || /\p{C}/u.test(line)), []);
  });

  it("stops on Ctrl-C, having logged each request in one line without the token or its hash", async () => {
    await using machine = new Machine();
    const started = await machine.start();
    const logged = started.output.length;
    const token = started.output.match(/pck_\w+/)?.[0] ?? "";
    await runExample(started);
    const typo = `${token.slice(0, -1)}${token.endsWith("0") ? "1" : "0"}`;
    const url = `http://127.0.0.1:${machine.apiPort}/functions/v1/public-audit-log`;
    assertEquals(await statusOnly(fetch(url, withKey(typo))), 401);
    assertEquals(await stop(started, "SIGINT"), 0);
    assertEquals(await machine.openPorts(), []);
    assertEquals((await machine.run("status")).code, 1);

    const written = started.output.slice(logged);
    const lines = written.match(/^\{.*\}$/gm)?.map((line) => JSON.parse(line));
    assertEquals(lines?.map(({ status }) => status), [200, 401]);
    assert(!written.includes(token.slice(4)) && !written.includes(typo.slice(4)), written);
    assert(!written.includes(await tokenHash(token)), written);
  });

  it("keeps its data, also when it was killed, and prints a key that works after others were revoked", async () => {
    await using machine = new Machine();
    const first = await machine.start();
    const keys = new Set<string>();
    for (let i = 0; i < 2; i++) {
      const key = (await machine.status()).get("DEMO_API_KEY") ?? "";
      assertEquals((await machine.status()).get("DEMO_API_KEY"), key);
      keys.add(key);
      await machine.query(
        "update audit_log_private.api_keys set revoked_at = now() where revoked_at is null",
      );
    }
    const orphans = await Promise.all(
      [FUNCTION, POSTGREST].map(async (command) => await processOf(first, command) ?? ""),
    );
    await stop(first, "SIGKILL");
    assertEquals(await machine.openPorts(), [machine.databasePort]);

    const second = await machine.start();
    assertStringIncludes(second.output, "An earlier run was killed");
    assertEquals((await runExample(second)).items.length, 2);
    const key = (await machine.status()).get("DEMO_API_KEY") ?? "none";
    assertStringIncludes(second.output, key);
    assertEquals(keys.add(key).size, 3);
    const made = await machine.query(
      "select from audit_log_private.api_keys where name = 'deno task start'",
    );
    assertEquals(made.length, 3);
    for (const orphan of orphans) {
      assert(orphan, "it is no process of its own");
      assert(await isGone(orphan), `${orphan} is left behind`);
    }
    const postgrest = await processOf(second, POSTGREST) ?? "none";
    assertEquals(await stop(second, "SIGTERM"), 0);
    assert(await isGone(postgrest), "PostgREST still runs");
    assertEquals(await machine.openPorts(), []);
  });

  it("ends, and says why, when the function's process ends by itself", async () => {
    await using machine = new Machine();
    const started = await machine.start();
    Deno.kill(Number(await processOf(started, FUNCTION)), "SIGKILL");
    assertEquals((await started.process.status).code, 1);
    assertStringIncludes(started.output, "The function's process has ended");
    assertEquals(await machine.openPorts(), []);
  });

  const faults = [
    [
      "too old",
      "echo PostgREST 11.2.2",
      "is PostgREST 11.2.2. Install version 12 or newer, or take",
    ],
    ["none", "echo Hello", 'is "Hello", no PostgREST. Install version 12 or newer, or take it off'],
    [
      "dead at once",
      '[ "$1" = --version ] && echo PostgREST 99.1 && exit; echo not today >&2; exit 3',
      "PostgREST 99.1 (postgrest) does not start: it ended (code 3). Mend it, or take it off the PATH. " +
      "It said:\nnot today",
    ],
  ] as const;
  for (const [is, script, fault] of faults) {
    it(`ends, and says why, when the PostgREST on the PATH is ${is}`, async () => {
      await using machine = new Machine();
      const folder = await Deno.makeTempDir();
      const program = `#!/bin/sh\n${script}\n`;
      await Deno.writeTextFile(`${folder}/postgrest`, program, { mode: 0o755 });
      const PATH = `${folder}:${Deno.env.get("PATH")}`;
      const { code, text } = await machine.run("start", [], { PATH });
      assertEquals(code, 1);
      assertStringIncludes(text, fault);
      assertEquals(await machine.openPorts(), []);
      await Deno.remove(folder, { recursive: true });
    });
  }

  it("says which port is taken and what to do", async () => {
    await using machine = new Machine();
    const ports = { "api-port": machine.apiPort, "db-port": machine.databasePort };
    for (const [option, port] of Object.entries(ports)) {
      using _listener = Deno.listen({ hostname: "127.0.0.1", port });
      const { code, text } = await machine.run("start");
      assertEquals(code, 1);
      assertStringIncludes(text, `Port ${port} is taken`);
      assertStringIncludes(text, `--${option}=${port > 65_000 ? port - 100 : port + 100}`);
    }
  });

  it("refuses options that it does not have and ports that are none, with the usage that --help prints", async () => {
    await using machine = new Machine();
    const cases = [["--port=1", 2], ["--api-port=0", 2], ["--api-port", 2], ["--help", 0], [
      "-h",
      0,
    ]];
    for (const [option, expected] of cases) {
      const { code, text } = await machine.run("start", [`${option}`]);
      assertEquals(code, expected, text);
      for (const name of ["--api-port=54321", "--db-port=", "--data-dir=", "--help"]) {
        assertStringIncludes(text, name);
      }
    }
  });
});

describe("deno task build:console", () => {
  it("says what it needs when the project is not named", async () => {
    const { code, stderr } = await runDeno({
      args: ["run", "--allow-all", new URL("../../console/build.ts", import.meta.url).href],
    });
    assertEquals(code, 2);
    assertMatch(stderr, /^VITE_SUPABASE_URL is not set/);
  });
});
