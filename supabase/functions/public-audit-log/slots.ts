// Requests share a process. So that nobody fills its memory, each token has one request at a time, and the pages of all
// requests share bounded room. Supabase may run several processes.

const SMALL_PAGE = 100;
/** The most bytes of JSON that an entry takes. */
const LONGEST_ENTRY = 7_500;
/** In milliseconds. Supabase ends a request after 150 seconds without an answer. */
const LONGEST_WAIT = 120_000;

export type Slot = Awaited<ReturnType<Slots["take"]>>;

interface Waiting {
  bytes: number;
  room: Room;
  enter: () => void;
}

/** Bytes for pages, and the requests that wait for them. There are two, so that small pages never wait for large ones. */
class Room {
  readonly waiting = new Set<Waiting>();
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
  /** The requests of each token. The first one has a slot, or waits in its room; the others wait for it. */
  readonly #requests = new Map<string, Set<Waiting>>();
  readonly #large = new Room(16 * 1024 ** 2);
  readonly #small = new Room(8 * 1024 ** 2);

  /** @throws {Error} after two minutes. */
  async take(token: string, entries: number) {
    const room = entries > SMALL_PAGE ? this.#large : this.#small;
    // No less than a small page, so that few requests at a time use the Data API's connections.
    let bytes = Math.max(entries, SMALL_PAGE) * LONGEST_ENTRY;
    const { promise, resolve: enter, reject } = Promise.withResolvers<void>();
    const request = { bytes, room, enter };
    const requests = this.#requests.get(token) ?? new Set();
    this.#requests.set(token, requests.add(request));
    const letFirstWait = () => {
      const [first] = requests;
      if (!first) this.#requests.delete(token);
      first?.room.waiting.add(first);
      first?.room.admit();
    };
    if (requests.size === 1) letFirstWait();
    const leave = () => {
      const [first] = requests;
      requests.delete(request);
      room.waiting.delete(request);
      if (first === request) letFirstWait();
      room.admit();
    };
    const timer = setTimeout(() => {
      leave();
      reject(new Error(`waited ${LONGEST_WAIT} ms for other requests`));
    }, LONGEST_WAIT);
    await promise.finally(() => clearTimeout(timer));
    const shrinkTo = (left: number) => {
      room.free += bytes - left;
      bytes = left;
      if (left === 0) leave(); // The slot ends.
      room.admit();
    };
    return { bodyBytes: 0, shrinkTo };
  }
}
