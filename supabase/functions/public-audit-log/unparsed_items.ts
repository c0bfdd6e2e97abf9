import type { Turn } from "./turns.ts";

// The items of a page pass through the function as bytes and are never parsed. A page can have 7 MB, parsing
// multiplies its memory, and JavaScript numbers would lose digits.

const LINE_BREAK = 0x0a;

/**
 * Wraps `fetch` for supabase-js, which parses every answer. When a JSON answer has several lines, supabase-js
 * gets the first and the last with `null` between them, and `take` gets the lines between.
 *
 * A cut-off answer fails to parse, because its last line is missing. No JSON string contains a line break.
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

/** The size of a piece, in bytes. */
const CHUNK = 65_536;

/**
 * The garbage collector frees the pieces only when new buffers have added up to 64 MiB, a quarter of what Supabase
 * allows. So after each page we allocate a buffer of this many bytes: the collector counts it, and runs earlier. The
 * buffer takes no memory, because nobody writes to it.
 */
const BALLAST = 33 * 1024 ** 2;

/** A body that is not read whole within this many milliseconds is given up. */
const LONGEST_READING = 60_000;

/**
 * A response of `before`, the bytes and `after`. A small body is sent at once, which is fastest. A large one
 * is sent in pieces, its turn ends with it, and its memory is freed at once: the garbage collector would let
 * hundreds of megabytes pile up.
 */
export function respondWith(
  before: string,
  bytes: Uint8Array<ArrayBuffer>,
  after: string,
  { turn, headers }: { turn: Turn; headers: HeadersInit },
): Response {
  const text = new TextEncoder();
  const [first, last] = [text.encode(before), text.encode(after)];
  const length = first.length + bytes.length + last.length;
  const body = length > CHUNK
    ? stream(first, bytes, last, turn.handOver(bytes.length))
    : before + new TextDecoder().decode(bytes) + after;
  return new Response(body, { headers: { ...headers, "Content-Length": String(length) } });
}

function stream(
  first: Uint8Array,
  bytes: Uint8Array<ArrayBuffer>,
  last: Uint8Array,
  onEnd: () => void,
): ReadableStream<Uint8Array> {
  let sent = 0;
  const end = () => {
    clearTimeout(timer);
    bytes.buffer.transfer(0);
    new ArrayBuffer(BALLAST);
    onEnd();
  };
  let timer: ReturnType<typeof setTimeout>;
  return new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(first);
      timer = setTimeout(() => {
        controller.error(new Error(`the body was not read whole within ${LONGEST_READING} ms`));
        end();
      }, LONGEST_READING);
    },
    pull(controller) {
      // A copy, because the receiver may still have it when `bytes` is freed.
      controller.enqueue(bytes.slice(sent, sent += CHUNK));
      if (sent < bytes.length) return;
      controller.enqueue(last);
      controller.close();
      end();
    },
    cancel: end,
  }, { highWaterMark: 0 });
}
