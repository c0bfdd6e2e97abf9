// Requests share a process. So that no client fills its memory or everybody's queue, the requests of a key are answered
// one after the other, the pages of all keys together have bounded room, and few token hashes that may be nobody's are
// looked up at once. All of this holds within one process: Supabase may run several.

/** For the pages of all requests, in bytes: small ones never wait for large ones. */
const ROOM = { large: 16 * 1024 ** 2, small: 8 * 1024 ** 2 };

const SMALL_PAGE = 100;

/** The most bytes of JSON that an entry takes. */
const LONGEST_ENTRY = 7_500;

/** How many requests of strangers have a turn at once. A stranger is a token hash that is not remembered as a key's. */
const STRANGERS = { large: 1, small: 2 };

/** How long the place of a refused stranger stays empty, in milliseconds: it bounds how many a second are looked up. */
const PAUSE = 5;

/** So many token hashes of keys are remembered. The one that was used longest ago is forgotten first. */
const MOST_KNOWN = 10_000;

/** The longest wait for a turn, in milliseconds. Supabase ends a request after 150 seconds without an answer. */
const LONGEST_WAIT = 120_000;

/** An amount that requests share. A request that finds too little left waits; the first that waits is served first. */
class Budget {
  #taken = 0;
  readonly #waiting = new Set<{ amount: number; resolve: () => void }>();

  constructor(readonly total: number, readonly onUnused: () => void = () => {}) {}

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
    if (this.#taken === 0) this.onUnused();
  }
}

export interface Turn {
  /** Says whether the database knows the token hash. Until then, a stranger's turn keeps other strangers waiting. */
  settle(isKnown: boolean): void;
  /** Hands the turn to a body of so many bytes; returns what ends it. */
  handOver(bytes: number): () => void;
  /** Ends it, unless it was handed over. */
  end(): void;
}

/** Of IPv6 the network, the first 64 bits: one machine can have all of its addresses. */
export function networkOf(address = ""): string {
  const text = URL.parse(`http://[${address}]`)?.hostname.slice(1, -1);
  // IPv4, also as ::ffff:cb00:7107.
  if (!text || text.startsWith("::")) return address;
  const [head = [], tail = []] = text.split("::").map((part) => part.split(":"));
  const zeros = Array(8 - head.length - tail.length).fill("0");
  return [...head, ...zeros, ...tail].slice(0, 4).join(":");
}

export class Turns {
  /** Those of each key and address that has a request now. */
  readonly #named = new Map<string, Budget>();
  readonly #known = new Set<string>();
  readonly #large = { pages: new Budget(ROOM.large), strangers: new Budget(STRANGERS.large) };
  readonly #small = { pages: new Budget(ROOM.small), strangers: new Budget(STRANGERS.small) };

  get isUnused(): boolean {
    return this.#named.size === 0;
  }

  /**
   * Waits for the turn of a request with this token hash, and for room for its page. The hash need not be a key's. Of one
   * address (or network), at most as many strangers stand in everybody's queue as can have a turn at once. Its others wait
   * behind them.
   *
   * @throws {Error} after two minutes.
   */
  async next(tokenHash: string, entries: number, address?: string): Promise<Turn> {
    const isLarge = entries > SMALL_PAGE;
    const { pages, strangers } = isLarge ? this.#large : this.#small;
    // Supabase's runtime does not tell when the client has left: no request gives up its place earlier.
    const late = new AbortController();
    const error = new Error(`waited ${LONGEST_WAIT} ms for other requests`);
    const timer = setTimeout(() => late.abort(error), LONGEST_WAIT);
    const taken = new Map<Budget, number>();
    const take = async (budget: Budget, amount: number) => {
      await budget.take(amount, late.signal);
      taken.set(budget, amount);
    };
    const end = () => {
      for (const [budget, amount] of taken) budget.give(amount);
    };
    const places: Budget[] = [];
    try {
      await take(this.#budgetOf(tokenHash, 1), 1);
      if (!this.#known.has(tokenHash)) {
        // Before they ask for room, so that waiting strangers hold none.
        const network = this.#budgetOf(`${isLarge} ${networkOf(address)}`, strangers.total);
        for (const each of [network, strangers]) {
          await take(each, 1);
          places.push(each);
        }
      }
      await take(pages, entries * LONGEST_ENTRY);
    } catch (error) {
      end();
      throw error;
    } finally {
      clearTimeout(timer);
    }
    let isHandedOver = false;
    return {
      settle: (isKnown) => {
        for (const place of places) taken.delete(place);
        const leave = () => places.forEach((place) => place.give(1));
        if (isKnown) leave();
        else setTimeout(leave, PAUSE);
        this.#known.delete(tokenHash);
        if (isKnown) this.#known.add(tokenHash);
        const [oldest] = this.#known;
        if (oldest && this.#known.size > MOST_KNOWN) this.#known.delete(oldest);
      },
      handOver: (bytes) => {
        isHandedOver = true;
        pages.give(entries * LONGEST_ENTRY - bytes);
        taken.set(pages, bytes);
        return end;
      },
      end: () => isHandedOver || end(),
    };
  }

  #budgetOf(name: string, total: number): Budget {
    const budget = this.#named.get(name) ?? new Budget(total, () => this.#named.delete(name));
    this.#named.set(name, budget);
    return budget;
  }
}
