import type postgres from "postgres";

/** PostgREST's process, and the backends that serve it. */
export async function dataApiProcesses(stack: number, sql: postgres.Sql) {
  const ps = await new Deno.Command("ps", { args: ["-o", "pid=,comm=", "--ppid", `${stack}`] })
    .output();
  const children = new TextDecoder().decode(ps.stdout).matchAll(/(\d+) postgrest$/gm);
  const backends = await sql<{ pid: number }[]>`
    select pid from pg_stat_activity where usename = 'authenticator'`;
  return {
    postgrest: Array.from(children, ([, pid]) => Number(pid)),
    postgres: backends.map(({ pid }) => pid),
  };
}

/**
 * The processor time that processes have used, and children of theirs that have ended, in milliseconds: the 14th to
 * 17th number of proc(5) `stat`.
 */
export async function processorTime(pids: number[]): Promise<number> {
  const times = await Promise.all(pids.map(async (pid) => {
    const stat = await Deno.readTextFile(`/proc/${pid}/stat`);
    const numbers = stat.slice(stat.lastIndexOf(")") + 2).split(" ").map(Number);
    return 10 * numbers.slice(11, 15).reduce((a, b) => a + b, 0);
  }));
  return times.reduce((a, b) => a + b, 0);
}

/** A Postgres on this machine, and a connection to it. */
export interface Server {
  postgres: { dataDir: string };
  admin: postgres.Sql;
}

/** The processor time that servers have used since they were started, in milliseconds. */
export async function serverProcessorTime(servers: readonly Server[]): Promise<number> {
  let time = 0;
  for (const { postgres: { dataDir }, admin } of servers) {
    const postmaster = parseInt(await Deno.readTextFile(`${dataDir}/postmaster.pid`));
    const backends = await admin<{ pid: number }[]>`select pid from pg_stat_activity`;
    for (const pid of [postmaster, ...backends.map(({ pid }) => pid)]) {
      // One may have ended since: then the first, their parent, has its time.
      time += await processorTime([pid]).catch(() => 0);
    }
  }
  return time;
}

/** Does something; the processor time that groups of processes have used meanwhile, in milliseconds each. */
export async function whileTimed<T>(groups: number[][], run: () => Promise<T>) {
  const before = await Promise.all(groups.map(processorTime));
  const result = await run();
  const after = await Promise.all(groups.map(processorTime));
  return { result, times: after.map((time, n) => time - (before[n] ?? NaN)) };
}
