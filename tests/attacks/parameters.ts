import type { Page } from "../api.ts";

// Reads the parameters of the contract (docs/api.md) a second time: what each may be, and which entries it asks for.
// This shares no code with the service, and uses neither URL nor zod nor Date, because the service uses them.

/** One parameter of the query string. Values have one character for each byte. */
interface Parameter {
  /** Some at its bounds. The first two are right. */
  values: string[];
  isRight(value: string): boolean;
  /** What counts if it is not given. Without a default, it may be left out. */
  default?: string;
  /** Says whether a page with this value may have an entry. */
  admits?(entry: Page["items"][number], value: string): boolean;
}

const ACTIONS = ["agent_added", "conversation_created", "message_created", "feedback_given"];
const BAD_TIMES = [
  "2026-03-01",
  "2026-03-01T12:00:00",
  "2026-03-01T12:00:00+01:00",
  "2026-03-01T24:00:00Z",
  "2026-03-01T23:59:60Z",
  "2026-03-01T12:00:00.1234567Z",
  "2026-02-29T12:00:00Z",
  "0000-12-31T12:00:00Z",
  "2026-03-01T12:00:00%2B23:00",
];
const MAX_OFFSET = 9007199254740991n;

/** All parameters. A new one is attacked as soon as it is here. */
export const PARAMETERS: Record<string, Parameter> = {
  start: {
    values: "2026-03-01 2026-03-02 2024-02-29 2000-02-29 0001-01-01 0000-12-31 2026-02-29"
      .split(" "),
    isRight: isDay,
    default: "",
    admits: ({ created_at }, day) => created_at.slice(0, 10) >= day,
  },
  end: {
    values: "2026-03-02 2026-03-03 2026-12-31 9999-12-31 10000-01-01 2026-13-01 2026-04-31"
      .split(" "),
    isRight: isDay,
    default: "",
    admits: ({ created_at }, day) => created_at.slice(0, 10) <= day,
  },
  since: {
    values: ["2026-03-01T12:00:00Z", "2026-03-02T00:00:00.0005%2B01:00", ...BAD_TIMES],
    isRight: (text) => instantOf(text) !== null,
    admits: ({ created_at }, time) => instantOf(created_at)! >= instantOf(time)!,
  },
  until: {
    values: ["2026-03-02T12:00:00.001Z", "2026-03-01T12:00:00-14:00", ...BAD_TIMES],
    isRight: (text) => instantOf(text) !== null,
    admits: ({ created_at }, time) => instantOf(created_at)! < instantOf(time)!,
  },
  action: {
    values: [
      ...ACTIONS,
      "agent_added,feedback_given",
      "",
      "agent",
      "agent_added,agent_added",
      ",agent_added",
    ],
    isRight: (codes) => {
      const list = codes.split(",");
      return list.every((code, n) => ACTIONS.includes(code) && list.indexOf(code) === n);
    },
    admits: ({ action }, codes) => codes.split(",").includes(action),
  },
  user_email: {
    values: ["ada@example.com", "Ada@example.com", "%25", "_", "x".repeat(320), ""],
    isRight: isPerson,
    admits: ({ user_email }, person) => withoutCapitals(user_email) === withoutCapitals(person),
  },
  limit: {
    values: ["1", "1000", "7", "0100", "0".repeat(300) + "1", "0", "1001"],
    isRight: (text) => isBetween(1n, text, 1000n),
    default: "100",
  },
  offset: {
    values: ["0", "1", "5", "00", "2147483648", "9007199254740991", "9007199254740992"],
    isRight: (text) => isBetween(0n, text, MAX_OFFSET),
    default: "0",
  },
  order: {
    values: ["asc", "desc", "ASC", ""],
    isRight: (order) => ["asc", "desc"].includes(order),
  },
  after: {
    values: ["beginning", "beginning", "Beginning", "A".repeat(64), "-".repeat(7_000)],
    // A random text is never a valid cursor.
    isRight: (cursor) => cursor === "beginning",
  },
};

/** Says whether UTF-8 bytes are 1 to 320 characters without NUL. */
function isPerson(bytes: string): boolean {
  const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(
    Uint8Array.from(bytes, (byte) => byte.charCodeAt(0)),
  );
  return text.length > 0 && [...text].length <= 320 && !text.includes("\0");
}

function isBetween(least: bigint, text: string, most: bigint): boolean {
  const number = readNumber(text);
  return number !== null && number >= least && number <= most;
}

function readNumber(text: string): bigint | null {
  if (text === "") return null;
  for (const digit of text) if (digit < "0" || digit > "9") return null;
  return BigInt(text);
}

function withoutCapitals(text: string): string {
  const small = "abcdefghijklmnopqrstuvwxyz";
  return [...text].map((one) => small["ABCDEFGHIJKLMNOPQRSTUVWXYZ".indexOf(one)] ?? one).join("");
}

/** Returns microseconds since the year 0 of a time with a zone, or null if it is none. */
export function instantOf(text: string): bigint | null {
  const [, day = "", hour, minute, second, fraction = "", sign, hours, minutes] =
    /^(.{10})T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?(?:Z|([+-])(\d\d):(\d\d))$/.exec(text) ?? [];
  if (!isDay(day) || Number(hour) > 23 || Number(minute) > 59 || Number(second) > 59) return null;
  if (sign && (Number(hours) > 14 || Number(minutes) > 59)) return null;
  const zone = sign ? Number(`${sign}1`) * (Number(hours) * 60 + Number(minutes)) : 0;
  const seconds = (dayNumber(day) * 1440 + Number(hour) * 60 + Number(minute) - zone) * 60 +
    Number(second);
  return BigInt(seconds) * 1_000_000n + BigInt(fraction.padEnd(6, "0"));
}

/** Counts the days before a day, from the year 0 on. */
function dayNumber(day: string): number {
  const [year = 0, month = 0, date = 0] = day.split("-").map(Number);
  const leaps = (before: number) =>
    Math.ceil(before / 4) - Math.ceil(before / 100) + Math.ceil(before / 400);
  const isLeap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  const before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334][month - 1] ?? 0;
  return year * 365 + leaps(year) + before + (isLeap && month > 2 ? 1 : 0) + date;
}

function isDay(text: string): boolean {
  if (text.length !== 10 || text[4] !== "-" || text[7] !== "-") return false;
  const parts = [text.slice(0, 4), text.slice(5, 7), text.slice(8)].map(readNumber);
  if (parts.includes(null)) return false;
  const [year = 0, month = 0, day = 0] = parts.map(Number);
  const leap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  const days = [31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1] ?? 0;
  return year >= 1 && day >= 1 && day <= days;
}
