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
  readonly waiting = new Set<{ bytes: number; enter: () => void }>();
  constructor(public free: number) {}

  /** Lets those enter, in their order, whose page has room. */
  admit(): void {
    for (const request of this.waiting) {
      if (request.bytes > this.free) return;
      this.free -= request.bytes;
      this.waiting.delete(request);
      request.enter();
    }
  }
}

export class Slots {
  /** The end of the last request of each token. */
  readonly #last = new Map<string, Promise<void>>();
  readonly #large = new Room(16 * 1024 ** 2);
  readonly #small = new Room(8 * 1024 ** 2);

  /** @throws {Error} after two minutes. */
  async take(token: string, entries: number) {
    const room = entries > SMALL_PAGE ? this.#large : this.#small;
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    const { promise: entered, resolve: enter, reject } = Promise.withResolvers<void>();
    // No less than a small page, so that few requests at a time use the Data API's connections.
    const request = { bytes: Math.max(entries, SMALL_PAGE) * LONGEST_ENTRY, enter };
    const shrinkTo = (bytes: number) => {
      room.free += request.bytes - bytes;
      request.bytes = bytes;
      if (bytes === 0) end();
      room.admit();
    };
    const timer = setTimeout(() => {
      reject(new Error(`waited ${LONGEST_WAIT} ms for other requests`));
      // When its place comes, it leaves at once.
      [request.bytes, request.enter] = [0, end];
      room.admit();
    }, LONGEST_WAIT);
    Promise.resolve(this.#last.get(token)).then(() => room.waiting.add(request) && room.admit());
    this.#last.set(token, ended);
    ended.then(() => this.#last.get(token) === ended && this.#last.delete(token));
    await entered.finally(() => clearTimeout(timer));
    return { bodyBytes: 0, shrinkTo };
  }
}
