import { z } from "zod";
import { EntriesQuery } from "./query_schema.ts";

const entry = {
  id: z.uuid().describe("Identifies the entry, together with `created_at`"),
  created_at: z.string().regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    .meta({ format: "date-time" }).describe("When it happened, to the millisecond, in UTC"),
  user_email: z.string().describe("The e-mail address of the user who did it"),
  agent_name: z.string().describe("The name of the agent involved"),
};

const { message_created, ...otherActions } = EntriesQuery.shape.action.unwrap().enum;

const MessageCreated = z.object({
  ...entry,
  action: z.literal(message_created),
  data: z.object({
    message_id: z.string(),
    conversation_id: z.string(),
    agent_id: z.string(),
    platform_agent_sid: z.string(),
  }).describe("The message and what it belongs to"),
}).meta({ id: "MessageCreated", description: "A user sent a message in a conversation" });

const OtherEntry = z.object({
  ...entry,
  action: z.enum(otherActions).describe(
    "`agent_added`: an agent was activated for the organization; `conversation_created`: a user " +
      "started a conversation; `feedback_given`: a user gave thumbs up or down on a message",
  ),
  data: z.record(z.string(), z.unknown()).describe("What the action is about"),
}).meta({ id: "OtherEntry", description: "An entry with any other action" });

const asked = {
  organization_id: z.string().describe("The organization that owns the API key"),
  start: EntriesQuery.shape.start.describe("As in the request"),
  end: EntriesQuery.shape.end.describe("As in the request"),
  total: z.int().min(0).describe(
    "How many items match in all, counted at the same moment as `items`",
  ),
  limit: EntriesQuery.shape.limit.unwrap().describe("As in the request, or its default"),
  offset: EntriesQuery.shape.offset.unwrap().describe("As in the request, or its default"),
};

/** The body of a 200 with entries. */
export const Page = z.object({
  ...asked,
  next: z.url().optional().describe(
    "Only with `after`: the absolute address to ask for next, as in `Link`",
  ),
  has_more: z.boolean().optional().describe(
    "Only with `after`: `false` means that you have caught up, so wait before you ask for `next`. " +
      "`true` means that you can ask at once, also when this page is short or empty",
  ),
  items: z.array(
    z.discriminatedUnion("action", [MessageCreated, OtherEntry]).meta({
      id: "AuditEntry",
      description: "One action of one user",
    }),
  ).describe("The entries of this page"),
}).meta({ id: "Page", description: "A page of the audit log of one organization" });

export type Page = z.infer<typeof Page>;

const hash = z.string().regex(/^[0-9a-f]{64}$/);

const Seal = z.object({
  format: z.int().min(1).describe(
    "How the seal and the lines of its entries are written; 1 is what is described here",
  ),
  sequence: z.int().min(1).describe(
    "Its number in the organization's chain: 1, 2, 3, without gaps",
  ),
  day: z.iso.date().describe("The UTC day that is sealed"),
  entries: z.int().min(0).describe("How many entries the day has"),
  added: z.int().min(0).describe(
    "How many entries were added since the day's previous seal; 0 in the day's first seal",
  ),
  removed: z.int().min(0).describe(
    "How many entries were deleted since the day's previous seal; 0 in the day's first seal",
  ),
  sha256: hash.describe(
    "SHA-256 of a list that has one line for each 1000 lines of the day as " +
      "`application/x-ndjson`: the SHA-256 of these lines, in hexadecimal",
  ),
  sealed_at: z.string().regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    .meta({ format: "date-time" }).describe("When the seal was made, to the millisecond, in UTC"),
  previous: hash.describe(
    "The `seal` with the previous sequence number; 64 zeros in the first seal",
  ),
  seal: hash.describe(
    "SHA-256 of `format previous sequence day entries added removed sha256 sealed_at`, with single " +
      "spaces between them and no line break",
  ),
}).meta({
  id: "Seal",
  description: "The state of a finished day. If a day has several seals, the last one counts",
});

/** The body of a 200 with seals. */
export const SealsPage = z.object({
  ...asked,
  altered: z.array(z.iso.date()).describe(
    "Days of the range whose entries differ from their seal, although no later seal declares a change",
  ),
  items: z.array(Seal).describe("The seals of this page, by `sequence`"),
}).meta({ id: "SealsPage", description: "A page of the seals of one organization" });

export type SealsPage = z.infer<typeof SealsPage>;
