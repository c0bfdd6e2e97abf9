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
class Machine implements AsyncDisposable {
  readonly apiPort = freePort();
  readonly databasePort = freePort();
  readonly #dataDir = Deno.makeTempDirSync();
  #process: Deno.ChildProcess | undefined;
  /** The latest start has printed this so far. */
  output = "";

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

  /** Runs `deno task …` to its end. Returns its exit code and all that it printed. */
  async run(task: string, ...options: string[]) {
    const { code, stdout, stderr } = await runDeno({ args: [...this.#args(task), ...options] });
    return { code, text: stdout + stderr };
  }

  /** Runs `deno task start`. Resolves when it has printed everything. */
  async start(): Promise<void> {
    const process = new Deno.Command(Deno.execPath(), {
      args: this.#args("start"),
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    this.#process = process;
    this.output = "";
    const errors = new Response(process.stderr).text();
    const ready = Promise.withResolvers<void>();
    (async () => {
      for await (const text of process.stdout.pipeThrough(new TextDecoderStream())) {
        this.output += text;
        if (this.output.includes("logged below")) ready.resolve();
      }
      ready.reject(new Error(`start ended: ${this.output}${await errors}`));
    })();
    await ready.promise;
  }

  /** Sends a signal to the start. Returns its exit code. */
  async stop(signal: Deno.Signal): Promise<number | undefined> {
    this.#process?.kill(signal);
    return await this.ended();
  }

  /** Waits for the end of the start. Returns its exit code. */
  async ended(): Promise<number | undefined> {
    return (await this.#process?.status)?.code;
  }

  /** Runs `deno task status`. Returns its values by name. */
  async status(): Promise<Record<string, string>> {
    const { text } = await this.run("status");
    return Object.fromEntries(
      Array.from(text.matchAll(/^(\w+)="(.*)"$/gm), ([, name, value]) => [name, value]),
    );
  }

  async query(statement: string): Promise<postgres.RowList<postgres.Row[]>> {
    const sql = postgres(`postgresql://postgres:postgres@127.0.0.1:${this.databasePort}/postgres`);
    try {
      return await sql.unsafe(statement);
    } finally {
      await sql.end();
    }
  }

  /** A checksum of all entries. It leaves out the numbers of their transactions, which autovacuum changes. */
  async checksum(): Promise<string> {
    const [row] = await this.query(`
      select md5(string_agg(audit_log_private.entry_line(e), ' ' order by created_at, id)) as checksum
      from audit_log.audit_entries e`);
    return row?.["checksum"];
  }

  /** Runs the example that the start printed, as pasted into a shell. */
  async runExample(): Promise<Page> {
    const example = this.output.match(/^ *curl "(?:.*\\\n)*.*/m)?.[0] ?? "";
    return JSON.parse((await runProgram("sh", { args: ["-c", example] })).stdout);
  }

  /** The process id of a child of the start, by what is in its command. */
  async processOf(command: string): Promise<string> {
    const { stdout } = await runProgram("ps", { args: ["-eo", "ppid,pid,args"] });
    const line = new RegExp(`^ *${this.#process?.pid} +(\\d+) .*${command}`, "m");
    const [, pid = ""] = stdout.match(line) ?? [];
    assert(pid, `${command} has no process of its own`);
    return pid;
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
    // It may have ended, as it should have.
    await this.stop("SIGKILL").catch(() => {});
    await this.run("reset");
  }
}

const FUNCTION = "public-audit-log/index.ts";
const POSTGREST = "postgrest";

/** Whether a process is gone, or a zombie that nobody has waited for. */
async function isGone(pid: string): Promise<boolean> {
  const { stdout } = await runProgram("ps", { args: ["-o", "stat=", "-p", pid] });
  return /^(Z.*\s*)?$/.test(stdout);
}

describe("deno task start", () => {
  // A start takes seconds, so the tests share these.
  const machine = new Machine();
  const another = new Machine();
  beforeAll(() => Promise.all([machine.start(), another.start()]));
  afterAll(async () => {
    await machine[Symbol.asyncDispose]();
    await another[Symbol.asyncDispose]();
  });

  it("prints an example that works, and status prints its addresses and keys", async () => {
    const page = await machine.runExample();
    assertEquals(page.items.length, 2);
    assertEquals(page.end, new Date().toISOString().slice(0, 10));
    const consoleUrl = machine.output.match(/Console +(http\S+)/)?.[1] ?? "none";
    assertStringIncludes(await (await fetch(consoleUrl)).text(), "<title>Audit log console");
    assertMatch(machine.output, /Data API \(PostgREST \d+\.\d+\S*\), Auth/);

    const { DEMO_API_KEY = "none", ...status } = await machine.status();
    assertEquals(Object.keys(status), ["API_URL", "DB_URL", "PUBLISHABLE_KEY", "SECRET_KEY"]);
    assertEquals(status["API_URL"], `http://127.0.0.1:${machine.apiPort}`);
    assertMatch(status["PUBLISHABLE_KEY"] ?? "", /^sb_publishable_/);
    assertMatch(status["SECRET_KEY"] ?? "", /^sb_secret_/);
    assertStringIncludes(machine.output, DEMO_API_KEY);
  });

  it("answers the request in README.md as it shows", async () => {
    const readme = await Deno.readTextFile(new URL("../../README.md", import.meta.url));
    const [, command = "", shown = ""] = readme.match(
      /^eval .*\n(curl [^]*?)^```\n+```json\n([^]*?)^```$/m,
    ) ?? [];
    const { stdout } = await runProgram("sh", {
      args: ["-c", command],
      env: await machine.status(),
    });
    const { items, total: _, ...page } = JSON.parse(stdout);
    const { items: shownItems, total: __, ...shownPage } = JSON.parse(shown);
    assertEquals(page, shownPage);
    // The demonstration data ends today: one day, it no longer has that of the page.
    for (const item of items) assertEquals(Object.keys(item), Object.keys(shownItems[0]));
  });

  it("refuses to run twice on the same data, and to be reset while it runs", async () => {
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
        -- All days but today: a weekend has few entries, or none.
        (select count(*) from audit_log_private.seals s where s.organization_id = o.id) =
          count(distinct (e.created_at at time zone 'UTC')::date) - 1 as sealed
      from audit_log.organizations o join audit_log.audit_entries e on e.organization_id = o.id
      group by o.id`);
    const expected = [1, 4, true, true, true, true];
    assertEquals(organizations.map((row) => Object.values(row)), [expected, expected]);

    const { API_URL = "", PUBLISHABLE_KEY = "" } = await machine.status();
    const auth = { persistSession: false, autoRefreshToken: false };
    for (const email of DEMO_EMAILS) {
      const client = createClient(API_URL, PUBLISHABLE_KEY, { auth });
      const { data } = await client.auth.signInWithPassword({ email, password: DEMO_PASSWORD });
      assertEquals(data.user?.email, email);
    }
  });

  it("seeds the same on every machine, keeps its data when it is killed, and leaves no process behind", async () => {
    const checksum = await another.checksum();
    assertEquals(checksum, await machine.checksum());
    const { DEMO_API_KEY: key = "none" } = await another.status();
    const orphans = [await another.processOf(FUNCTION), await another.processOf(POSTGREST)];
    await another.query("update audit_log_private.api_keys set revoked_at = now()");
    await another.stop("SIGKILL");
    assertEquals(await another.openPorts(), [another.databasePort]);

    await another.start();
    assertStringIncludes(another.output, "An earlier run was killed");
    assertEquals(await another.checksum(), checksum);
    for (const orphan of orphans) assert(await isGone(orphan), `${orphan} is left behind`);
    // The key from before was revoked meanwhile: this start has made another.
    assert(!another.output.includes(key));
    assertEquals((await another.runExample()).items.length, 2);
  });

  // The last two tests end the starts that the others use.

  it("stops on Ctrl-C, having logged each request in one line without the token or its hash", async () => {
    const token = another.output.match(/pck_\w+/)?.[0] ?? "";
    const logged = another.output.indexOf("logged below");
    await another.runExample();
    const typo = `${token.slice(0, -1)}${token.endsWith("0") ? "1" : "0"}`;
    const url = `http://127.0.0.1:${another.apiPort}/functions/v1/public-audit-log`;
    assertEquals(await statusOnly(fetch(url, withKey(typo))), 401);
    const pid = await another.processOf(POSTGREST);
    assertEquals(await another.stop("SIGINT"), 0);
    assert(await isGone(pid), "PostgREST still runs");
    assertEquals(await another.openPorts(), []);
    assertEquals((await another.run("status")).code, 1);

    const written = another.output.slice(logged);
    const lines = written.match(/^\{.*\}$/gm)?.map((line) => JSON.parse(line));
    assertEquals(lines?.map(({ status }) => status).slice(-2), [200, 401]);
    assert(!written.includes(token.slice(4)) && !written.includes(typo.slice(4)), written);
    assert(!written.includes(await tokenHash(token)), written);
  });

  it("ends, and says why, when the function's process ends by itself", async () => {
    Deno.kill(Number(await machine.processOf(FUNCTION)), "SIGKILL");
    assertEquals(await machine.ended(), 1);
    assertStringIncludes(machine.output, "The function's process has ended (SIGKILL)");
    assertEquals(await machine.openPorts(), []);
  });
});

describe("deno task start, where it cannot run,", () => {
  const machine = new Machine();
  afterAll(() => machine[Symbol.asyncDispose]());

  it("says which port is taken and what to do", async () => {
    const ports = { "api-port": machine.apiPort, "db-port": machine.databasePort };
    for (const [option, port] of Object.entries(ports)) {
      using _listener = Deno.listen({ hostname: "127.0.0.1", port });
      const { code, text } = await machine.run("start");
      assertEquals(code, 1);
      assertStringIncludes(text, `Port ${port} is taken`);
      assertStringIncludes(text, `--${option}=${port + 100}`);
    }
  });

  it("refuses unknown options and impossible ports, and prints its options", async () => {
    for (const option of ["--port=1", "--api-port=0"]) {
      const { code, text } = await machine.run("start", option);
      assertEquals(code, 2, text);
      assertStringIncludes(text, "--api-port=54321");
    }
  });
});
