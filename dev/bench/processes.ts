/** The processor time of a process, in milliseconds, in steps of ten: the 14th and 15th number of `stat` (proc(5)). */
export async function processorTime(pid: number): Promise<number> {
  const stat = await Deno.readTextFile(`/proc/${pid}/stat`);
  const [user, system] = stat.slice(stat.lastIndexOf(")") + 2).split(" ").slice(11, 13);
  return 10 * (Number(user) + Number(system));
}

/** The most memory in RAM that a process has had since `resetPeak`, in MiB. */
export async function peakOf(pid: number): Promise<number> {
  const status = await Deno.readTextFile(`/proc/${pid}/status`);
  return Number(status.match(/^VmHWM:\s+(\d+) kB$/m)?.[1]) / 1024;
}

/** Forgets the most memory that a process has had (proc(5), `clear_refs`). */
export async function resetPeak(pid: number): Promise<void> {
  await Deno.writeTextFile(`/proc/${pid}/clear_refs`, "5");
}
