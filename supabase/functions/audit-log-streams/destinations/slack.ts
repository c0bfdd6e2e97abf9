import { type Batch, encode, JSON_TYPE, type Kind, parse, under } from "./destination.ts";

const ADDRESS = "https://hooks.slack.com/services";

/** A sentence an entry. The secret is the rest of the webhook's address. */
export const slack: Kind = {
  name: "Slack",
  hint: "One sentence per entry, for a few actions",
  url: ADDRESS,
  secrets: [{
    label: "Webhook address",
    placeholder: `${ADDRESS}/T…/B…/…`,
    description: "Of an incoming webhook. Whoever knows it can write to the channel.",
  }],
  secretBegins: `${ADDRESS}/`,
  look: "The channel has a message that begins “This is a test.”",
  // Slack cuts a message after 40,000 characters, and takes one a second.
  mostEntries: 25,
  build({ lines, what }, [secret = ""], { url }) {
    const message = {
      text: lines.map((line) => sentence(line, what)).join("\n"),
      // What people write in an agent's name must not become a link.
      parse: "none",
      mrkdwn: false,
      unfurl_links: false,
      unfurl_media: false,
    };
    const headers = { "content-type": JSON_TYPE };
    const body = encode(JSON.stringify(message));
    return { method: "POST", url: under(url, secret), headers, body };
  },
  isOwn: ({ body }) => body.trim() === "ok",
};

function sentence(line: string, what: Batch["what"]): string {
  const { id, time, action, fields } = parse(line);
  if (what === "seals") {
    return `The ${fields["entries"]} entries of ${fields["day"]} were sealed. To keep: ${id}`;
  }
  const test = what === "test" ? "This is a test. " : "";
  const when = time.replace("T", " ").replace(/\.\d+Z/, " UTC");
  const { user_email, agent_name } = fields;
  return escape(`${test}${when}: ${action} by ${user_email}, agent “${agent_name}”`);
}

/** Writes what Slack would read as a mention or a link, and line breaks, as text. */
function escape(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ")
    .replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
