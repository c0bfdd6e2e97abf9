/** Asks a question, and reads only as much of the answer as it is told to. */
export class SlowReader {
  readonly #connection: Deno.TcpConn;
  text = "";

  private constructor(connection: Deno.TcpConn) {
    this.#connection = connection;
  }

  static async ask(
    server: Deno.ConnectOptions,
    path: string,
    token: string,
    host = "a",
  ): Promise<SlowReader> {
    const reader = new SlowReader(await Deno.connect(server));
    const headers = `Host: ${host}\r\nAuthorization: Bearer ${token}\r\nConnection: close`;
    const head = `GET ${path} HTTP/1.1\r\n${headers}\r\n\r\n`;
    await reader.#connection.write(new TextEncoder().encode(head));
    return reader;
  }

  async readByte(): Promise<void> {
    const byte = new Uint8Array(1);
    if (!await this.#connection.read(byte)) throw new Error(`no more than ${this.text}`);
    this.text += String.fromCharCode(...byte);
  }

  async readHeaders(): Promise<void> {
    while (!this.text.endsWith("\r\n\r\n")) await this.readByte();
  }

  /** Reads 64 kB, or what comes before the server closes the connection. Returns how many bytes. */
  async readPiece(): Promise<number> {
    let length = 0;
    for (let read: number | null = 1; read && length < 65_536; length += read ?? 0) {
      read = await this.#connection.read(new Uint8Array(65_536 - length)).catch(() => null);
    }
    return length;
  }

  /** Counts the bytes that are left, until the server closes the connection. */
  async readRest(): Promise<number> {
    let bytes = 0;
    try {
      for await (const chunk of this.#connection.readable) bytes += chunk.length;
    } catch {
      // The server has cut the connection.
    }
    return bytes;
  }

  close(): void {
    this.#connection.close();
  }
}
