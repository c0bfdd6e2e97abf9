// Needs a stack. Slow.

import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { it } from "@std/testing/bdd";
import { dirname } from "node:path";
import process from "node:process";
import { parse as parseCsv } from "npm:csv-parse@7.0.3/sync";
import { ALL_DAYS, AUDIT_LOG_URL, type CliOptions, deleteEntriesBefore } from "../helpers/cli.ts";
import { type Ended, fill, hangUp, insertEntries, insertEntry } from "../helpers/cli.ts";
import { installCli, KILLED, mustFail, mustRun, newFilledLog, newFolder } from "../helpers/cli.ts";
import { newLog, type Organization, randomFrom, runProgram, runUpkeep } from "../helpers/cli.ts";
import { send, sql, startCli, startKiller, startProxy, withKey } from "../helpers/cli.ts";
import { writeLate } from "../helpers/cli.ts";
import { AuditLogError } from "../../cli/client.ts";
import { readProgress, writeDurably } from "../../cli/files.ts";

const INSTALLED = await installCli();
const SEED = Number(Deno.env.get("EXPORT_SEED") ?? Math.floor(Math.random() * 1e9));

const read = Deno.readTextFileSync;

function start(file: string, options: CliOptions, ...args: string[]) {
  return startCli(INSTALLED, ["export", `--out=${file}`, ...args], options);
}

function exportTo(file: string, options: CliOptions, ...args: string[]): Promise<Ended> {
  return mustRun(start(file, options, ...args).output);
}

/** Asserts that a file has each entry of an organization once, with the same bytes as the database. */
async function assertWhole(file: string, { id }: Organization): Promise<void> {
  const rows = await sql`
    select audit_log_private.entry_line(e) as line from audit_log.audit_entries e where organization_id = ${id}`;
  const lines = /csv$/i.test(file) ? csvLines(read(file)) : read(file).split("\n").slice(0, -1);
  assertEquals(lines.sort(), rows.map(({ line }) => line).sort());
}

function csvLines(text: string): string[] {
  // To most readers, every line break that is not quoted ends a record.
  const record_delimiter = ["\r\n", "\n", "\r"];
  const [header, ...records] = parseCsv(text, { record_delimiter, bom: true }) as string[][];
  assertEquals(header, ["id", "created_at", "action", "user_email", "agent_name", "data"]);
  return records.map(([id, created_at, action, user_email, agent_name, data]) =>
    JSON.stringify({ id, created_at, action, user_email, agent_name })
      .replace(/}$/, () => `,"data":${data}}`)
  );
}

async function sealedLog(): Promise<Organization> {
  const log = await newLog();
  await insertEntries(sql, log.id, "2026-11-18", 2);
  await runUpkeep(sql);
  return log;
}

it("public-audit-log export writes only what its options select, with the same bytes as the API", async () => {
  const { token: key } = await newFilledLog(300, 11, 10);
  const folder = newFolder();
  const some = "start=2026-11-12&end=2026-11-13&action=agent_added";
  const one = "user_email=user7@example.com";
  const about = `object=${encodeURIComponent('},{"id":[\\')}`;
  const none = "start=2020-01-01&end=2020-01-02";
  const moments = "since=2026-11-12T08:00:00Z&until=2026-11-19T09:00:00.5%2B01:00";
  const two = `${moments}&action=agent_added&action=feedback_given`;
  const argsOf = (query: string) =>
    decodeURIComponent(query).replace("_email", "-email").split("&").map((option) => `--${option}`);
  for (const query of [ALL_DAYS, some, `${ALL_DAYS}&${one}`, `${ALL_DAYS}&${about}`, two, none]) {
    await exportTo(`${folder}/${query}`, { key }, ...argsOf(query));
    const asked = `?${query.replace("&action=feedback_given", ",feedback_given")}&limit=1000`;
    const page = await send(asked, withKey(key, { Accept: "application/x-ndjson" }));
    assertEquals(read(`${folder}/${query}`), await page.text());
  }
  await exportTo(`${folder}/none.csv`, { key }, ...argsOf(none));
  const header = "\uFEFFid,created_at,action,user_email,agent_name,data\r\n";
  assertEquals(read(`${folder}/none.csv`), header);
});

for (const [on, name, kills] of [["Deno", "log.ndjson", 30], ["Node", "log.CSV", 10]] as const) {
  it(`public-audit-log export writes every entry and its values once to ${name} through ${kills} kills, while late entries are written`, async () => {
    console.log(`EXPORT_SEED=${SEED}`);
    const random = randomFrom(SEED);
    const log = await newFilledLog(5_000, 11, 10);
    const file = `${newFolder()}/${name}`;
    await using proxy = startKiller(log, () => random(12));
    const options = { url: proxy.url, key: log.token };
    const args = name.endsWith("CSV") ? ["--raw-csv"] : [];
    for (let kill = 0; kill < kills; kill++) {
      const commitLate = await writeLate(log);
      await fill(log, 1 + random(700), 11 + random(10));
      const { process, output } = start(file, options, ...args, "--follow");
      proxy.victim = { process, answersLeft: 1 + random(2) };
      const { code, stderr } = await output;
      assertEquals(code, KILLED, stderr);
      await commitLate();
      // As if it had been killed while it wrote a page.
      if (random(3) === 0) Deno.writeTextFileSync(file, "half an en", { append: true });
    }
    proxy.victim = undefined;
    const { stdout, stderr } = await exportTo(file, { ...options, on }, ...args);
    await assertWhole(file, log);
    assertMatch(stdout, /^(\d+) of \1 entries are in \S+log\.\w+\n$/);
    assertEquals(stderr, "", "it shows its progress on a terminal only");
    const names = Array.from(Deno.readDirSync(dirname(file)), ({ name }) => name);
    assertEquals(names.sort(), [name, `${name}.progress`]);
  });
}

it("public-audit-log export puts a ' before what a spreadsheet would run as a formula, and only there", async () => {
  const log = await newFilledLog(20);
  const file = `${newFolder()}/log.csv`;
  await exportTo(file, { key: log.token });
  assertEquals(read(file).match(/"'=1\+1"/g)?.length, 2);
  Deno.writeTextFileSync(file, read(file).replaceAll("'=1+1", "=1+1"));
  await assertWhole(file, log);
});

it("public-audit-log export writes each sealed day as its seal has it with --days, reads only what is new, and keeps what the log has deleted or changed", async () => {
  const log = await newLog();
  const days = { "2026-11-18": 2, "2026-11-19": 1000, "2026-11-20": 2000 };
  for (const [day, count] of Object.entries(days)) await insertEntries(sql, log.id, day, count);
  await runUpkeep(sql);
  const folder = newFolder();
  let isShifted = false;
  await using proxy = startProxy(async (_number, forward, url) => {
    // A late entry shifts the pages while they are read.
    if (url.includes("offset=1000") && !isShifted) {
      isShifted = true;
      await insertEntry(sql, log.id, { created_at: "2026-11-20" });
    }
    return forward();
  });
  const run = async (command: string, ...args: string[]) => {
    const options = { url: proxy.url, key: log.token };
    const { stdout } = await mustRun(startCli(INSTALLED, [command, ...args], options).output);
    return stdout.trim().split("\n");
  };
  const exportDays = (...args: string[]) => run("export", `--days=${folder}`, ...args);
  const said = (written: number) => `3 sealed days are in ${folder}, ${written} of them new`;

  const [differs, summary] = await exportDays();
  assertMatch(differs ?? "", /2026-11-20\.ndjson differs from its seal: entries have come late/);
  assertEquals(summary, said(3));
  assertEquals(read(`${folder}/2026-11-20.ndjson`).split("\n").length, 2002);
  // Nothing was deleted: until it is sealed, the late entry is only a difference.
  const [stillDiffers] = await exportDays();
  assertEquals(stillDiffers, differs);
  await runUpkeep(sql);
  await run("verify", folder);
  const asked = proxy.requestedAt.length;
  assertEquals(await exportDays(), [said(0)]);
  assertEquals(proxy.requestedAt.length, asked + 1);

  await insertEntry(sql, log.id, { created_at: "2026-11-19" });
  await runUpkeep(sql);
  const alone = await exportDays("--start=2026-11-20");
  assertEquals(alone, [`1 sealed days are in ${folder}, 0 of them new`]);
  // As a run that was killed leaves it.
  Deno.writeTextFileSync(`${folder}/2026-11-19.ndjson.new`, "half an en");
  assertEquals(await exportDays(), [said(1)]);
  await run("verify", folder, "--start=2026-11-18", "--end=2026-11-20");

  await deleteEntriesBefore(sql, log.id, "2026-11-19");
  await runUpkeep(sql);
  const other = read(`${folder}/2026-11-20.ndjson`).replace('"action":"', '"action":"un');
  Deno.writeTextFileSync(`${folder}/2026-11-20.ndjson`, other);
  const [deleted, changed, after] = await exportDays();
  assertMatch(deleted ?? "", /11-18\.ndjson is kept as it is, with 2 entries: the log has 0/);
  assertMatch(changed ?? "", /11-20\.ndjson is kept .* 2001 .* has 2001, .* deleted or changed/);
  assertEquals(after, said(0));
  assertEquals(read(`${folder}/2026-11-18.ndjson`).split("\n").length, 3);
  assertEquals(read(`${folder}/2026-11-20.ndjson`), other);
});

it("public-audit-log export makes files that only their owner can read, also those that are there, and writes through no link beside them", async () => {
  const log = await sealedLog();
  const folder = newFolder();
  const run = async () => {
    const umask = Deno.umask(0o022);
    try {
      for (const name of ["log.ndjson", "log.csv"]) {
        await exportTo(`${folder}/${name}`, { key: log.token });
      }
      const follow = ["follow", "--once", `--state=${folder}/at`];
      for (const args of [["export", `--days=${folder}`], follow]) {
        await mustRun(startCli(INSTALLED, args, { key: log.token }).output);
      }
    } finally {
      Deno.umask(umask);
    }
  };
  const names = ["log.ndjson", "log.ndjson.progress", "log.csv", "log.csv.progress", "at"]
    .concat("2026-11-18.ndjson").sort();
  const modes = () =>
    names.map((name) => ((Deno.statSync(`${folder}/${name}`).mode ?? 0) & 0o777).toString(8));
  const victim = `${newFolder()}/victim`;
  Deno.writeTextFileSync(victim, "mine");
  for (const name of ["at.new", "log.csv.progress.new", "2026-11-18.ndjson.new"]) {
    Deno.symlinkSync(victim, `${folder}/${name}`);
  }
  await run();
  assertEquals(modes(), names.map(() => "600"));
  assertEquals(Array.from(Deno.readDirSync(folder), ({ name }) => name).sort(), names);
  assertEquals(read(victim), "mine");

  for (const name of names) Deno.chmodSync(`${folder}/${name}`, 0o640);
  await insertEntries(sql, log.id, "2026-11-18", 1);
  await runUpkeep(sql);
  await run();
  assertEquals(modes(), names.map(() => "600"));
  assertEquals(read(`${folder}/2026-11-18.ndjson`).split("\n").length, 4);
});

it("public-audit-log export refuses what is in the place of its files and is not a file of its user: a link, a pipe, a device, a folder", async () => {
  const { token: key } = await newFilledLog(10);
  const folder = newFolder();
  Deno.writeTextFileSync(`${folder}/theirs`, "", { mode: 0o666 });
  await mustRun(runProgram("mkfifo", { args: [`${folder}/pipe`] }));
  const plant = (target: string, ...names: string[]) => {
    for (const name of names) Deno.symlinkSync(target, `${folder}/${name}`);
  };
  plant(`${folder}/theirs`, "link.csv", "there.csv.progress", "at");
  plant(`${folder}/nowhere`, "dangling.csv");
  plant(`${folder}/pipe`, "piped.csv.progress");
  plant("/dev/null", "device.csv");
  for (const name of ["folder.csv", "state", "days"]) Deno.mkdirSync(`${folder}/${name}`);
  const outs = ["link", "there", "dangling", "piped", "device", "pipe", "folder"].map((name) => [
    "export",
    `--out=${folder}/${name}${name === "pipe" ? "" : ".csv"}`,
  ]);
  const states = ["at", "state"].map((name) => ["follow", "--once", `--state=${folder}/${name}`]);
  for (const args of [...outs, ...states]) {
    await mustFail(startCli(INSTALLED, args, { key }), 2, /is not a file of yours/);
  }
  const { token } = await sealedLog();
  Deno.symlinkSync(`${folder}/pipe`, `${folder}/days/2026-11-18.ndjson`);
  const args = ["export", `--days=${folder}/days`];
  const run = startCli(INSTALLED, args, { key: token });
  await mustFail(run, 2, /2026-11-18\.ndjson is not a file of yours/);
  // What comes into the place of the file after it was looked at.
  await using proxy = startProxy(async (_, forward) => {
    const answer = await forward();
    plant(`${folder}/theirs`, "late.csv");
    return answer;
  });
  const late = start(`${folder}/late.csv`, { url: proxy.url, key });
  await mustFail(late, 1, /late\.csv cannot be written: ELOOP/);
  assertEquals(read(`${folder}/theirs`), "");
  // As another user.
  const { getuid } = process;
  process.getuid = () => 1 + (getuid?.() ?? 0);
  try {
    assertThrows(() => readProgress(`${folder}/theirs`), AuditLogError, "is not a file of yours");
  } finally {
    Object.assign(process, { getuid });
  }
});

it("public-audit-log export is done by one of several that start together, and the others name the process that does it", async () => {
  const { token: key } = await newFilledLog(10);
  const file = `${newFolder()}/log.csv`;
  const running = new Set([1, 2, 3, 4].map(() => start(file, { key }, "--follow")));
  const ended = await Promise.all(Array.from(running, async (run) => {
    const { code, stderr } = await run.output;
    running.delete(run);
    if (running.size === 1) { for (const { process } of running) process.kill("SIGKILL"); }
    return { code, stderr };
  }));
  const refused = ended.filter(({ code }) => code !== KILLED);
  assertEquals(refused.map(({ code }) => code), [2, 2, 2]);
  for (const { stderr } of refused) {
    assertMatch(stderr, /log\.csv is in use by process \d+: wait until it has ended/);
  }
  // What the killed one has left does not stop the next.
  await exportTo(file, { key });
  const names = Array.from(Deno.readDirSync(dirname(file)), ({ name }) => name);
  assertEquals(names.sort(), ["log.csv", "log.csv.progress"]);
});

it("public-audit-log export ends with code 1 when the disk is full", () => {
  const write = () => writeDurably("/dev/full", "a", "text");
  const { exitCode, message } = assertThrows(write, AuditLogError);
  assertEquals(exitCode, 1);
  assertMatch(message, /full cannot be written: ENOSPC.*\. Then run the same command again/);
});

// Only root can give a file away.
(Deno.uid() === 0 ? it : it.skip)(
  "public-audit-log export continues no file of somebody else that has come since it looked",
  () => {
    const file = `${newFolder()}/log.ndjson`;
    Deno.writeTextFileSync(file, "");
    Deno.chownSync(file, 65534, 65534);
    const append = () => writeDurably(file, "a", "text");
    assertThrows(append, AuditLogError, "or somebody else's");
    assertEquals(Deno.readTextFileSync(file), "");
  },
);

it("public-audit-log export takes no broken answer for a page", async () => {
  const log = await newFilledLog(9_500);
  const file = `${newFolder()}/log.ndjson`;
  let count = 0;
  await using proxy = startProxy(async (number, forward) => {
    const answer = await forward();
    if (number % 2 === 0) return answer;
    const { headers } = answer;
    const body = await answer.text();
    const { cursor: _, ...withoutCursor } = JSON.parse(body);
    const texts = [body.slice(0, -1), "", "<html>Sign in</html>", "null"];
    const broken = [
      new Response(hangUp(new TextEncoder().encode(body).subarray(0, 2_000)), { headers }),
      ...texts.map((text) => new Response(text, { headers })),
      Response.json(withoutCursor),
      ...[503, 403, 429].map((status) => new Response("No", { status })),
    ];
    count = broken.length;
    return broken[(number - 1) / 2] ?? new Response(body, { headers });
  }, log);
  const { stderr } = await exportTo(file, { url: proxy.url, key: log.token });
  await assertWhole(file, log);
  assertEquals(stderr.match(/Trying again/g)?.length, count, stderr);
});

it("public-audit-log export stops at once and says what to do when it cannot go on, and leaves the files as they are", async () => {
  const [log, another] = [await newFilledLog(10), await newLog()];
  const key = log.token;
  const folder = newFolder();
  await exportTo(`${folder}/log.ndjson`, { key });
  await exportTo(`${folder}/cut.csv`, { key });
  Deno.truncateSync(`${folder}/cut.csv`, 700);
  Deno.writeTextFileSync(`${folder}/mine.csv`, "mine");
  await using proxy = startProxy(async (_number, forward) => {
    const answer = await forward();
    // As from a gateway that formats JSON.
    return answer.ok ? answer : new Response(JSON.stringify(await answer.json(), null, 1), answer);
  }, log);
  await using moved = startProxy(() => Response.redirect(AUDIT_LOG_URL, 302));
  const elsewhere = /\(302\)\. Is AUDIT_LOG_URL right\? The key was sent to no other URL/;
  const otherCursor =
    /saved cursor belongs to another selection .* give the same options as before.* Start again with after=beginning/s;
  const wrongPath = /^AUDIT_LOG_URL must end in \/public-audit-log, .* options: try --help/;
  const otherFile = /is not as .*\.progress says: move both away/;
  const cases: [file: string, message: RegExp, options: CliOptions, ...args: string[]][] = [
    ["log.ndjson", otherCursor, {}, "--start=2026-11-02"],
    ["log.ndjson", otherCursor, { key: another.token }],
    ["mine.csv", otherFile, {}],
    ["cut.csv", otherFile, {}],
    ["new.csv", /\(400\)\. Correct .*02-30/s, {}, "--start=2026-02-30"],
    ["new.csv", elsewhere, { url: moved.url }],
    ["new.csv", wrongPath, { url: `${AUDIT_LOG_URL}/seals` }],
    ["new.csv", wrongPath, { url: `${AUDIT_LOG_URL}?action=agent_added` }],
    ["new.csv", /^AUDIT_LOG_URL is not set/, { url: "" }],
    ["new.csv", /^AUDIT_LOG_URL must be an https URL/, { url: "example.com" }],
    ["new.csv", /^AUDIT_LOG_URL .* could read what is sent/, { url: "http://example.com/" }],
    ["new.csv", /^AUDIT_LOG_API_KEY must be an API key/, { key: "" }],
    ["new.csv", /^--out: /, {}, "--out="],
    ["new.ndjson", /^--raw-csv: name a file that ends in \.csv/, {}, "--raw-csv"],
    ["new.csv", /^--out cannot be given with --days/, {}, "--days=days"],
    ["", /is not a file of yours, but a folder/, {}],
  ];
  const files = ["log.ndjson", "cut.csv", "mine.csv"].map((name) => `${folder}/${name}`);
  const before = files.map(read);
  for (const [name, message, options, ...args] of cases) {
    const asked = proxy.requestedAt.length;
    const all = { url: proxy.url, key, ...options };
    await mustFail(start(`${folder}/${name}`, all, ...args), 2, message);
    assert(proxy.requestedAt.length <= asked + 1);
  }
  assertEquals(files.map(read), before);
  await fill(log, 3);
  await exportTo(`${folder}/log.ndjson`, { key });
  await assertWhole(`${folder}/log.ndjson`, log);
});

it("public-audit-log export shows the key nowhere, whatever the API answers", async () => {
  const { token: key } = await newFilledLog(10);
  const file = `${newFolder()}/log.csv`;
  await using proxy = startProxy((number, forward) => {
    if (number > 3) return forward();
    const headers = { "X-Request-Id": key, "Retry-After": "0" };
    return new Response(key, { status: [500, 200, 400][number - 1] ?? 200, headers });
  });
  const outputs = [
    await start(file, { url: proxy.url, key }).output,
    await exportTo(file, { url: proxy.url, key }),
    await start(file, {}, key).output,
    await start(file, {}, `--key=${key}`).output,
    await start(file, { key: `${key}\r` }).output,
  ];
  assertEquals(outputs.map(({ code }) => code), [2, 0, 2, 2, 2]);
  const seen = [JSON.stringify(outputs), read(file), read(`${file}.progress`)];
  assert(!seen.join().includes(key));
});
