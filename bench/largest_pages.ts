import type postgres from "postgres";
import { makeKeys, startFunctionUnderLoad } from "./function_under_load.ts";
import { dataApiProcesses, whileTimed } from "./processes.ts";
import { printHead, printRow } from "./report.ts";

export const DAY = "2026-03-01";
const REQUESTS = 200;

/** The most that the function's process may take at once, in MiB, by how many pages are asked for at a time. */
const BOUNDS = [
  { atATime: 1, mebibytes: 130 },
  { atATime: 4, mebibytes: 150 },
];

/**
 * What an entry of the longest page is made of: as long as the table allows, and of characters that take
 * as much room as any do on their way. A character beyond Latin-1 makes a whole JavaScript string twice
 * as large; a control character is six in JSON.
 */
export const LONGEST = {
  "four bytes": {
    email: "😀".repeat(318) + "@😀",
    name: "😀".repeat(200),
    text: "😀".repeat(1021),
  },
  "escaped": {
    email: "\u0001".repeat(318) + "@\u0001",
    name: "\u0001".repeat(199) + "😀",
    text: "\\".repeat(2042),
  },
};

/**
 * Asks for the largest lawful pages and prints the most memory that each process had meanwhile; whether the
 * function stayed below its bounds.
 */
export async function measureLargestPages(): Promise<boolean> {
  console.log("Starting a stack …");
  await using load = await startFunctionUnderLoad();
  const { sql, edgeFunction, stack } = load;
  let isBounded = true;
  printHead(
    "pages of",
    "MB",
    "at a time",
    "function, MiB",
    "PostgREST",
    "one backend",
    "CPU of the function, ms",
    "of all",
  );
  for (const [is, longest] of Object.entries(LONGEST)) {
    const organizationId = crypto.randomUUID();
    const tokens = await makeKeys(sql, organizationId, 20);
    await insertEntries(sql, organizationId, longest);
    for (const { atATime, mebibytes } of BOUNDS) {
      await sql`update audit_log_private.rate_limits set accepted_at = '{}'`;
      const pids = await dataApiProcesses(stack.pid, sql);
      const all = [edgeFunction.pid, ...pids.postgrest, ...pids.postgres];
      for (const pid of all) await resetPeak(pid);
      const { result: pages, times } = await whileTimed(
        [[edgeFunction.pid], all],
        () => send(load.url, tokens, atATime),
      );
      const peaks = await Promise.all(
        [[edgeFunction.pid], pids.postgrest, pids.postgres].map(peak),
      );
      const isKept = (peaks[0] ?? NaN) <= mebibytes && pages.succeeded === REQUESTS;
      isBounded &&= isKept;
      printRow(
        `${is}${
          isKept ? "" : `: FAILED, ${pages.succeeded} of ${REQUESTS} within ${mebibytes} MiB`
        }`,
        (pages.bytes / 1e6).toFixed(1),
        atATime,
        ...peaks.map((peak) => peak.toFixed(0)),
        ...times.map((time) => (time / REQUESTS).toFixed(1)),
      );
    }
  }
  for (const fault of new Set(load.faults)) console.log(fault);
  return isBounded;
}

export async function insertEntries(
  sql: postgres.Sql,
  organizationId: string,
  { email, name, text }: Record<"email" | "name" | "text", string>,
): Promise<void> {
  await sql`
    insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name, data)
    select ${organizationId}, ${`${DAY}T12:00:00Z`}, 'feedback_given', ${email}, ${name}, ${
    sql.json({ t: text })
  }
    from generate_series(1, 1000)`;
  await sql`analyze audit_log.audit_entries`;
}

async function send(url: string, tokens: string[], atATime: number) {
  let sent = 0;
  let succeeded = 0;
  let bytes = 0;
  await Promise.all(Array.from({ length: atATime }, async () => {
    while (sent < REQUESTS) {
      const token = tokens[sent++ % tokens.length];
      const response = await fetch(`${url}?start=${DAY}&end=${DAY}&limit=1000`, {
        headers: { Authorization: `Bearer ${token}` },
      });
      const body = await response.bytes();
      if (response.status === 200) succeeded++;
      bytes = Math.max(bytes, body.length);
    }
  }));
  return { succeeded, bytes };
}

/** Forgets the most memory that a process has had (proc(5), `clear_refs`). */
export async function resetPeak(pid: number): Promise<void> {
  await Deno.writeTextFile(`/proc/${pid}/clear_refs`, "5");
}

/** The most memory in RAM that one of these processes has had, in MiB. */
export async function peak(pids: number[]): Promise<number> {
  const peaks = await Promise.all(pids.map(async (pid) => {
    const status = await Deno.readTextFile(`/proc/${pid}/status`);
    return Number(status.match(/^VmHWM:\s+(\d+) kB$/m)?.[1]) / 1024;
  }));
  return Math.max(...peaks);
}
