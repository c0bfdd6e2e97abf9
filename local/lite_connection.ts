import { createPostgresConnection, type PostgresConnection } from "@supabase/lite/postgres";
import postgres from "postgres";
import { Pool } from "tarn";

/** What the platform sets on the role that its Data API connects as, in milliseconds. */
const TIMEOUT = 8_000;

/**
 * Connects Supabase Lite to a database, with a pool that outlives faults.
 *
 * That of its driver does not (postgres.js 3.4.9): when the connection made for a `reserve()` fails,
 * a later one is lent to nobody, and for good. Here each connection is a client of its own.
 */
export async function connectLite(url: string): Promise<PostgresConnection> {
  const connection = createPostgresConnection({
    url,
    postgresOptions: {
      connection: { statement_timeout: TIMEOUT, lock_timeout: TIMEOUT },
      onnotice: () => {},
    },
  });
  // With its first statement the driver learns the database's array types, once for all clients: a
  // connection cut while it asks for them is a rejection that nobody can catch.
  const { driver } = connection;
  await driver`select`;
  await driver.end();

  const clients = new Pool<Client>({
    create: () => new Client(driver),
    validate: ({ isClosed }) => !isClosed,
    destroy: (client) => client.end(),
    min: 0,
    max: 10,
    acquireTimeoutMillis: TIMEOUT,
  });
  // Lite uses no more of its driver than this.
  Object.assign(driver, {
    async reserve() {
      const client = await clients.acquire().promise;
      return {
        unsafe: (...statement: Statement) => client.unsafe(...statement),
        release: () => clients.release(client),
      };
    },
    end: () => clients.destroy(),
  });
  return connection;
}

type Statement = [text: string, parameters: postgres.ParameterOrJSON<never>[]];

/** One connection, made for its first statement, and never another: a transaction is all on one. */
class Client {
  isClosed = false;
  readonly #driver: postgres.Sql;
  #failStatement: (error: Error) => void = () => {};

  constructor({ options }: postgres.Sql) {
    const onclose = () => {
      this.isClosed = true;
      // The driver forgets what it was given after the connection's error and before its end.
      this.#failStatement(new Error(CLOSED));
    };
    // The types do not say so, but a driver's options are options.
    const own: object = { ...options, max: 1, fetch_types: false, onclose };
    this.#driver = postgres(own);
  }

  async unsafe(...statement: Statement): Promise<unknown> {
    if (this.isClosed) throw new Error(CLOSED);
    return await new Promise((resolve, reject) => {
      this.#failStatement = reject;
      this.#driver.unsafe(...statement).then(resolve, reject);
    });
  }

  end(): Promise<void> {
    return this.#driver.end({ timeout: 1 });
  }
}

const CLOSED = "the connection to the database was closed";
