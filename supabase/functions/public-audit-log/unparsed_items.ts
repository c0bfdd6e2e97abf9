// The items of a page pass through the function as bytes and are never parsed. A page can have 7 MB, parsing
// multiplies its memory, and JavaScript numbers would lose digits.

const COMMA = 0x2c;
const LINE_BREAK = 0x0a;

/**
 * Wraps `fetch` for supabase-js, which parses every answer. When a JSON answer has several lines, supabase-js gets the
 * first and the last with `null` between them, and `take` gets the lines between. No JSON string contains a line break.
 * A cut-off answer fails to parse, because its last line is missing.
 */
export function leaveItemsUnparsed(
  fetch: typeof globalThis.fetch,
  take: (items: Uint8Array<ArrayBuffer>) => void,
): typeof globalThis.fetch {
  return async (input, init) => {
    const response = await fetch(input, init);
    if (!response.ok || !response.body) return response;
    const { status } = response;
    const bytes = await response.bytes();
    const first = bytes.indexOf(LINE_BREAK);
    const last = bytes.lastIndexOf(LINE_BREAK);
    if (first === last) return new Response(bytes, { status });
    take(bytes.subarray(first + 1, last));
    return new Response(new Blob([bytes.slice(0, first), "null", bytes.slice(last)]), { status });
  };
}

/** Turns a JSON array with one item a line into NDJSON. Works in place: `items` is overwritten. */
export function toNdjson(items: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const bracket = items.length - 1;
  let written = 0;
  for (let start = 1, end; start < bracket; start = end + 2) {
    const lineBreak = items.indexOf(LINE_BREAK, start);
    end = lineBreak < 0 ? bracket : lineBreak - 1;
    if (end < bracket && items[end] !== COMMA) throw new Error("items are not one a line");
    items.copyWithin(written, start, end);
    written += end - start;
    items[written++] = LINE_BREAK;
  }
  return items.subarray(0, written);
}
