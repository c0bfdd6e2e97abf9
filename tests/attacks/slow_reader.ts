/** Asks a question, and reads only as much of the answer as it is told to. */
export class SlowReader {
  readonly #connection: Deno.TcpConn;
  text = "";

  private constructor(connection: Deno.TcpConn) {
    this.#connection = connection;
  }

  static async ask(url: string, token: string, host = "a"): Promise<SlowReader> {
    const { hostname, port, pathname, search } = new URL(url);
    const reader = new SlowReader(await Deno.connect({ hostname, port: Number(port) }));
    const headers = `Host: ${host}\r\nAuthorization: Bearer ${token}\r\nConnection: close`;
    const head = `GET ${pathname}${search} HTTP/1.1\r\n${headers}\r\n\r\n`;
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

  /** Counts the bytes that are left, until the server closes the connection. Pauses after each 64 kB. */
  async readRest(pause = 0): Promise<number> {
    let bytes = 0;
    try {
      for await (const chunk of this.#connection.readable) {
        const isPiece = bytes % 65_536 + chunk.length >= 65_536;
        bytes += chunk.length;
        if (isPiece) await new Promise((resolve) => setTimeout(resolve, pause));
      }
    } catch {
      // The server has cut the connection.
    }
    return bytes;
  }

  close(): void {
    this.#connection.close();
  }
}
