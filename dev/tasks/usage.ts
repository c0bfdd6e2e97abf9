/**
 * Parses the arguments of a task. Given --help or -h, it prints the usage and ends this process. If `parse` throws, it
 * prints why and the usage, and ends with the exit code 2.
 */
export function parseOrPrintUsage<T>(usage: string, parse: () => T): T {
  if (Deno.args.some((argument) => ["--help", "-h"].includes(argument))) {
    console.log(usage);
    Deno.exit();
  }
  try {
    return parse();
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : error}\n\n${usage}`);
    Deno.exit(2);
  }
}

/** @throws {RangeError} naming the option, unless its value is a whole number from 1 to `most`. */
export function wholeNumber(option: string, value: string, most = Infinity): number {
  const number = Number(value);
  if (/^\d+$/.test(value) && number >= 1 && number <= most) return number;
  const range = most < Infinity ? `from 1 to ${most}` : "of 1 or more";
  throw new RangeError(`--${option}=${value}: must be a whole number ${range}`);
}
