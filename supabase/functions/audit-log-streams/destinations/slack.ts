import {
  type Answer,
  type Batch,
  type Destination,
  encode,
  isSuccess,
  JSON_TYPE,
  parseSeal,
  type Settings,
  unconfirmed,
  under,
  type Verdict,
} from "./destination.ts";

/** Slack cuts a message after 40,000 characters, and takes one a second. */
const MOST_ENTRIES = 25;

/**
 * A sentence an entry, for a stream of a few actions. The URL is https://hooks.slack.com/services, the secret the rest of
 * the webhook's address: whoever knows it can write to the channel.
 */
export function slack({ url }: Settings): Destination {
  return {
    mostEntries: MOST_ENTRIES,
    build({ lines, what }, [secret = ""]) {
      const message = {
        text: lines.map((line) => sentence(line, what)).join("\n"),
        // What people write in an agent's name must not become a link.
        parse: "none",
        mrkdwn: false,
        unfurl_links: false,
        unfurl_media: false,
      };
      return Promise.resolve({
        method: "POST",
        url: under(url, secret),
        headers: { "content-type": JSON_TYPE },
        body: encode(JSON.stringify(message)),
      });
    },
    read,
  };
}

function read(answer: Answer): Verdict | undefined {
  if (!isSuccess(answer) || answer.body.trim() === "ok") return undefined;
  return unconfirmed(answer);
}

function sentence(line: string, what: Batch["what"]): string {
  if (what === "seals") {
    const { sequence, day, entries, seal } = parseSeal(line);
    return `The ${entries} entries of ${day} were sealed. To keep: ${sequence}:${seal}`;
  }
  // What comes before `data`: the numbers in that stay as they are.
  const fields = JSON.parse(`${line.slice(0, line.indexOf(',"data":'))}}`);
  const { created_at, action, user_email, agent_name } = fields as Record<string, string>;
  const time = created_at?.replace("T", " ").replace(/\.\d+Z/, " UTC");
  const test = what === "test" ? "This is a test. " : "";
  return escape(`${test}${time}: ${action} by ${user_email}, agent “${agent_name}”`);
}

/** Writes what Slack would read as a mention or a link, and line breaks, as text. */
function escape(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ")
    .replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
