// Requests share a process. So that no client fills its memory or everybody's queue, the requests of a key are answered
// one after the other, and the pages of all keys together have bounded room. All of this holds within one process:
// Supabase may run several.

/** For the pages of all requests, in bytes: small ones never wait for large ones. */
const ROOM = { large: 16 * 1024 ** 2, small: 8 * 1024 ** 2 };

/** A page of more entries is large. */
const SMALL_PAGE = 100;

/** The most bytes of JSON that an entry takes. */
const LONGEST_ENTRY = 7_500;

/** In milliseconds, in all. Supabase ends a request after 150 seconds without an answer. */
const LONGEST_WAIT = 120_000;

/** An amount that requests share. A request that finds too little left waits; the first that waits is served first. */
class Budget {
  #taken = 0;
  readonly #waiting = new Set<{ amount: number; resolve: () => void }>();

  constructor(readonly total: number) {}

  get isUnused(): boolean {
    return this.#taken === 0 && this.#waiting.size === 0;
  }

  /** @throws {unknown} the signal's reason, if it is aborted first. */
  async take(amount: number, signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiting = { amount, resolve };
    this.#waiting.add(waiting);
    this.give(0);
    if (!this.#waiting.has(waiting)) return;
    const leave = () => {
      this.#waiting.delete(waiting);
      this.give(0);
      reject(signal.reason);
    };
    signal.addEventListener("abort", leave);
    if (signal.aborted) leave();
    await promise.finally(() => signal.removeEventListener("abort", leave));
  }

  give(amount: number): void {
    this.#taken -= amount;
    for (const next of this.#waiting) {
      if (this.#taken + next.amount > this.total) return;
      this.#taken += next.amount;
      this.#waiting.delete(next);
      next.resolve();
    }
  }
}

/** A request's turn. It ends with the scope that has it or, if it was handed over to a body, with the body. */
export interface Turn extends Disposable {
  /** Hands the turn to a body of so many bytes; returns what ends it. */
  handOver(bytes: number): () => void;
}

/** The turns of all requests of a process. */
export class Turns {
  readonly #keys = new Map<string, Budget>();
  readonly #large = new Budget(ROOM.large);
  readonly #small = new Budget(ROOM.small);

  /** How many keys have a request now. */
  get keysAtWork(): number {
    return this.#keys.size;
  }

  /**
   * Waits for the turn of a request with this token hash, and for room for its page. The hash need not be a key's.
   *
   * @throws {Error} after two minutes.
   */
  async next(tokenHash: string, entries: number): Promise<Turn> {
    const turns = this.#keys.get(tokenHash) ?? new Budget(1);
    this.#keys.set(tokenHash, turns);
    const pages = entries > SMALL_PAGE ? this.#large : this.#small;
    let [turn, room] = [0, 0];
    const end = () => {
      pages.give(room);
      turns.give(turn);
      if (turns.isUnused) this.#keys.delete(tokenHash);
    };
    const late = new AbortController();
    const error = new Error(`waited ${LONGEST_WAIT} ms for other requests`);
    const timer = setTimeout(() => late.abort(error), LONGEST_WAIT);
    try {
      await turns.take(1, late.signal);
      turn = 1;
      await pages.take(entries * LONGEST_ENTRY, late.signal);
      room = entries * LONGEST_ENTRY;
    } catch (error) {
      end();
      throw error;
    } finally {
      clearTimeout(timer);
    }
    let isHandedOver = false;
    return {
      handOver: (bytes) => {
        isHandedOver = true;
        pages.give(room - bytes);
        room = bytes;
        return end;
      },
      [Symbol.dispose]: () => isHandedOver || end(),
    };
  }
}
