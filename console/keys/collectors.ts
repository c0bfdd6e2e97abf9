import { AUDIT_LOG_URL, CONSOLE_URL } from "../shared/transport.ts";

// The ways in which an application can use a key. The pages of the documentation explain them; tests run them.

export interface Collector {
  name: string;
  hint: string;
  /** The page that says more. */
  page: "api" | "following" | "integrating";
  command: string;
}

const UP_TO_DATE = "Every entry arrives. After a stop, the same command continues.";

const TOKEN_FILE = "audit-log.key";

/** A file, because a shell keeps a history. */
export const STORE_TOKEN = `(umask 077; cat > ${TOKEN_FILE})`;

const ADDRESS = `export AUDIT_LOG_URL=${AUDIT_LOG_URL}\n`;
const WITH_KEY = `${ADDRESS}export AUDIT_LOG_API_KEY="$(cat ${TOKEN_FILE})"\n`;
/** The command reads the file at each request, so that a rotation needs no restart. */
const WITH_COMMAND = `npm install --global ${CONSOLE_URL}public-audit-log.tgz
${ADDRESS}export AUDIT_LOG_API_KEY_FILE=${TOKEN_FILE}
`;

/** A program that the documentation shows. */
function reader(name: string, run: string, program: string): Collector {
  return {
    name,
    hint: `A program to read and change. It prints every entry. ${UP_TO_DATE}`,
    page: "following",
    command:
      `${WITH_KEY}curl --fail --remote-name ${CONSOLE_URL}docs/${program}\n${run} ${program}`,
  };
}

export const COLLECTORS: Collector[] = [
  {
    name: "curl",
    hint: "Ask once for today's entries, to see that the key works.",
    page: "api",
    // curl reads the key from its input, because others could see it in arguments.
    command: `${WITH_KEY}printf 'Authorization: Bearer %s' "$AUDIT_LOG_API_KEY" |
  curl --header @- "$AUDIT_LOG_URL?start=$(date -u +%F)&end=$(date -u +%F)"`,
  },
  reader("Python", "python3", "follow.py"),
  reader("Node", "node", "follow.mjs"),
  reader("Go", "go run", "follow.go"),
  {
    name: "A file, kept up to date",
    hint: `Needs Node. ${UP_TO_DATE}`,
    page: "integrating",
    command: `${WITH_COMMAND}public-audit-log export --out=audit-log.ndjson --follow`,
  },
  {
    name: "A collector in your network",
    hint:
      `Needs Node, and a collector that listens on this machine: the documentation sets up Vector and Fluent Bit. ${UP_TO_DATE}`,
    page: "integrating",
    command:
      `${WITH_COMMAND}public-audit-log forward --to=http://127.0.0.1:8080/audit-log --state=audit-log.state`,
  },
];
