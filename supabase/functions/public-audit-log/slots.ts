// Requests share a process. So that nobody fills its memory, each token has one request at a time, and the pages of all
// requests share bounded room. Supabase may run several processes.

const SMALL_PAGE = 100;
/** The most bytes of JSON that an entry takes. */
const LONGEST_ENTRY = 7_500;
/** In milliseconds. Supabase ends a request after 150 seconds without an answer. */
const LONGEST_WAIT = 120_000;

export type Slot = Awaited<ReturnType<Slots["take"]>>;

/** Bytes for pages, and the requests that wait for them. There are two, so that small pages never wait for large ones. */
class Room {
  readonly waiting = new Set<{ token: string; bytes: number; enter: () => void }>();
  constructor(public free: number) {}
}

export class Slots {
  readonly #tokens = new Set<string>();
  readonly #large = new Room(16 * 1024 ** 2);
  readonly #small = new Room(8 * 1024 ** 2);

  /** @throws {Error} after two minutes. */
  async take(token: string, entries: number) {
    const room = entries > SMALL_PAGE ? this.#large : this.#small;
    // No less than a small page, so that few requests at a time use the Data API's connections.
    let bytes = Math.max(entries, SMALL_PAGE) * LONGEST_ENTRY;
    const { promise, resolve: enter, reject } = Promise.withResolvers<void>();
    const waiting = { token, bytes, enter };
    room.waiting.add(waiting);
    this.#admit();
    const timer = setTimeout(() => {
      room.waiting.delete(waiting);
      this.#admit();
      reject(new Error(`waited ${LONGEST_WAIT} ms for other requests`));
    }, LONGEST_WAIT);
    await promise.finally(() => clearTimeout(timer));
    const shrinkTo = (left: number) => {
      room.free += bytes - left;
      bytes = left;
      if (left === 0) this.#tokens.delete(token); // The slot ends.
      this.#admit();
    };
    return { bodyBytes: 0, shrinkTo };
  }

  /** Lets those enter, in their order, whose token has no other request and whose page has room. */
  #admit(): void {
    for (const room of [this.#large, this.#small]) {
      for (const waiting of room.waiting) {
        if (this.#tokens.has(waiting.token)) continue;
        if (waiting.bytes > room.free) break;
        room.free -= waiting.bytes;
        this.#tokens.add(waiting.token);
        room.waiting.delete(waiting);
        waiting.enter();
      }
    }
  }
}
