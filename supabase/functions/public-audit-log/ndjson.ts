/** One entry a line. */
export const NDJSON = "application/x-ndjson";

/**
 * Whether an `Accept` header prefers NDJSON to JSON (RFC 9110 section 12.5.1). An answer is JSON if it
 * does not, also if it allows neither.
 */
export function prefersNdjson(accept: string | null): boolean {
  const weights = new Map<string, number>();
  for (const range of accept?.toLowerCase().split(",") ?? []) {
    const [type = "", ...parameters] = range.split(";").map((part) => part.trim());
    const q = parameters.find((parameter) => parameter.startsWith("q="))?.slice(2) ?? "1";
    if (/^(0(\.\d{0,3})?|1(\.0{0,3})?)$/.test(q)) weights.set(type, Number(q));
  }
  const weightOf = (type: string) =>
    weights.get(type) ?? weights.get("application/*") ?? weights.get("*/*") ?? 0;
  return weightOf(NDJSON) > weightOf("application/json");
}

/** The text between the brackets of a JSON array whose items are on lines of their own, without the commas. */
export function toNdjson(items: string): string {
  const lines = items.slice(1, -1).replaceAll(",\n", "\n");
  return lines && `${lines}\n`;
}
