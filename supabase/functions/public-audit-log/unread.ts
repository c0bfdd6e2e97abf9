// A page of the log passes through the function as bytes, which nobody reads. It can have 7 MB: as strings
// it was several times as large, and numbers in it lost digits.

const LINE_BREAK = 0x0a;

/** By the request that they answer: of a client's request, nothing but the signal is seen on both sides of it. */
const unread = new WeakMap<AbortSignal, Uint8Array<ArrayBuffer>>();

/**
 * A `fetch` for a client that parses whatever it gets. Of a JSON text of several lines it gets the first
 * and the last, with `null` between them; what stood there is for {@linkcode takeUnread}.
 *
 * The text is complete then: JSON needs its last line, and no string in it has a line break.
 */
export function leaveUnread(fetch: typeof globalThis.fetch): typeof globalThis.fetch {
  return async (input, init) => {
    const response = await fetch(input, init);
    if (!response.ok || !response.body || !init?.signal) return response;
    const { status } = response;
    const bytes = await response.bytes();
    const first = bytes.indexOf(LINE_BREAK);
    const last = bytes.lastIndexOf(LINE_BREAK);
    if (first === last) return new Response(bytes, { status });
    unread.set(init.signal, bytes.subarray(first + 1, last));
    return new Response(new Blob([bytes.slice(0, first), "null", bytes.slice(last)]), { status });
  };
}

/** Takes what was left unread of the answer to the request with this signal. */
export function takeUnread(signal: AbortSignal): Uint8Array<ArrayBuffer> | undefined {
  const bytes = unread.get(signal);
  // A signal of a timeout lives until that time, and what belongs to it, too.
  unread.delete(signal);
  return bytes;
}

/** How much of a body is sent at a time, in bytes. */
const CHUNK = 65_536;

/**
 * A response with `before`, the bytes and `after`. A small body is sent as one copy, which is quickest. A
 * large one takes the bytes and frees their memory as soon as they are sent: the garbage collector would
 * let hundreds of megabytes wait.
 */
export function respondWith(
  before: string,
  bytes: Uint8Array<ArrayBuffer>,
  after: string,
  headers: HeadersInit,
): Response {
  const text = new TextEncoder();
  const [first, last] = [text.encode(before), text.encode(after)];
  const length = first.length + bytes.length + last.length;
  const body = length > CHUNK ? stream(first, bytes, last) : concat(first, bytes, last);
  return new Response(body, { headers: { ...headers, "Content-Length": String(length) } });
}

function concat(...parts: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let end = 0;
  for (const part of parts) {
    whole.set(part, end);
    end += part.length;
  }
  return whole;
}

function stream(
  first: Uint8Array,
  bytes: Uint8Array<ArrayBuffer>,
  last: Uint8Array,
): ReadableStream<Uint8Array> {
  let sent = 0;
  const free = () => void bytes.buffer.transfer(0);
  return new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(first),
    pull(controller) {
      // A copy: the collector keeps an eye on the amount of those.
      controller.enqueue(bytes.slice(sent, sent += CHUNK));
      if (sent < bytes.length) return;
      controller.enqueue(last);
      controller.close();
      free();
    },
    cancel: free,
  }, { highWaterMark: 0 });
}
