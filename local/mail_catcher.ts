/** A mail that Auth has sent. */
export interface Mail {
  to: string;
  text: string;
}

export interface MailCatcher extends AsyncDisposable {
  smtpPort: number;
  /** Where Auth reads what a mail says. */
  templateUrl: string;
}

const TEMPLATE = "Your code: {{ .Token }}";

/** Takes every mail (RFC 5321) on a port of its own, and delivers none. */
export function startMailCatcher(onMail: (mail: Mail) => void): MailCatcher {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const receiving = (async () => {
    for await (const connection of listener) void receive(connection, onMail).catch(() => {});
  })();
  const templates = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    () => new Response(TEMPLATE),
  );
  return {
    smtpPort: listener.addr.port,
    templateUrl: `http://127.0.0.1:${templates.addr.port}/`,
    async [Symbol.asyncDispose]() {
      listener.close();
      await Promise.all([receiving, templates.shutdown()]);
    },
  };
}

async function receive(connection: Deno.TcpConn, onMail: (mail: Mail) => void): Promise<void> {
  using _ = connection;
  const say = (text: string) => connection.write(new TextEncoder().encode(`${text}\r\n`));
  await say("220 mail catcher");
  const reader = connection.readable.pipeThrough(new TextDecoderStream());
  let received = "";
  let to = "";
  let isData = false;
  for await (const chunk of reader) {
    received += chunk;
    for (let end; (end = received.indexOf(isData ? "\r\n.\r\n" : "\r\n")) >= 0;) {
      const text = received.slice(0, end);
      received = received.slice(end + (isData ? 5 : 2));
      if (isData) {
        onMail({ to, text });
        isData = false;
        await say("250 caught");
        continue;
      }
      const command = text.slice(0, 4).toUpperCase();
      if (command === "RCPT") to = text.match(/<(.*)>/)?.[1] ?? "";
      isData = command === "DATA";
      await say(isData ? "354 go on" : command === "QUIT" ? "221 bye" : "250 fine");
      if (command === "QUIT") return;
    }
  }
}
