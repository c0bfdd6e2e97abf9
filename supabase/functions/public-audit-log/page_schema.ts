import * as z from "zod";
import { CODE, EntriesQuery, SealsQuery } from "./query_schema.ts";

const time = z.string().regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  .meta({ format: "date-time" });

/** A union by action would say more about `data`, but generators fail on it, or make a class without fields. */
const AuditEntry = z.object({
  id: z.uuid().describe("Identifies the entry, together with `created_at`"),
  created_at: time.describe("When it happened, to the millisecond, in UTC"),
  action: z.string().describe(
    "`agent_added`: an agent was activated for the organization; `conversation_created`: a user started a " +
      "conversation; `message_created`: a user sent a message in a conversation; `feedback_given`: a user gave " +
      "thumbs up or down on a message; or another code of `/actions`. More may be added at any time",
  ),
  user_email: z.string().describe("The e-mail address of the person who did it"),
  agent_name: z.string().describe("The name of the agent involved"),
  data: z.record(z.string(), z.unknown()).describe(
    "What the action is about. For `message_created` it has `message_id`, `conversation_id`, `agent_id` and " +
      "`platform_agent_sid`, all strings. For other actions, `required` in `/actions` names what it always has",
  ),
}).meta({ id: "AuditEntry", description: "One action of one person" });

export type AuditEntry = z.infer<typeof AuditEntry>;

const asked = {
  organization_id: z.string().describe("The organization that owns the API key"),
  start: SealsQuery.shape.start.describe("As in the request; 0001-01-01 if it was left out"),
  end: SealsQuery.shape.end.describe("As in the request; 9999-12-31 if it was left out"),
  total: z.int().min(0).describe("The exact number of matching items when `items` were read"),
  limit: EntriesQuery.shape.limit.unwrap().describe("As in the request, or its default"),
  offset: EntriesQuery.shape.offset.unwrap().describe("As in the request, or its default"),
};

export const Page = z.object({
  ...asked,
  total: asked.total.describe(
    "The exact number of matching entries when `items` were read. With `after` and `object`, if more than 25,000 " +
      "entries have to be looked through for it, the number of these",
  ),
  since: z.string().optional().describe("Only if it was asked for: as in the request"),
  until: z.string().optional().describe("Only if it was asked for: as in the request"),
  cursor: z.string().optional().describe(
    "Only with `after`: give it as `after` in your next request, now or whenever you like",
  ),
  has_more: z.boolean().optional().describe(
    "Only with `after`: `false` means that you have caught up, so wait before you ask again. " +
      "`true` means that you can ask at once, even if this page is short or empty",
  ),
  next: z.url().nullable().optional().describe(
    "Only with `after`: the absolute address to ask for next, as in `Link`; null when you have caught up",
  ),
  items: z.array(AuditEntry).describe("The entries of this page"),
}).meta({ id: "Page", description: "A page of the audit log of one organization" });

export type Page = z.infer<typeof Page>;

const hash = z.string().regex(/^[0-9a-f]{64}$/);

const Seal = z.object({
  format: z.int().min(1).describe(
    "How the seal and the lines of its entries are written; 1 is what is described here",
  ),
  sequence: z.int().min(1).describe("Its number in the organization's chain: 1, 2, 3 and so on"),
  day: z.iso.date().describe("The UTC day that is sealed"),
  entries: z.int().min(0).describe("How many entries the day has"),
  added: z.int().min(0).describe("Entries added since the day's previous seal; 0 in its first"),
  removed: z.int().min(0).describe("Entries deleted since the day's previous seal; 0 in its first"),
  sha256: hash.describe(
    "The hash of the day. Take the day as `application/x-ndjson`, and hash each block of 1000 lines with " +
      "SHA-256. Write these hashes in hexadecimal, each on a line of its own, and hash that text",
  ),
  sealed_at: time.describe("When the seal was made, to the millisecond, in UTC"),
  previous: hash.describe("The `seal` before it in the chain; 64 zeros in the first seal"),
  seal: hash.describe(
    "SHA-256 of `format previous sequence day entries added removed sha256 sealed_at`, with single " +
      "spaces between them and no line break",
  ),
}).meta({
  id: "Seal",
  description: "The state of a finished day. If a day has several seals, the last one counts",
});

export const SealsPage = z.object({
  ...asked,
  altered: z.array(z.iso.date()).describe(
    "Days of the range whose entries differ from their seal, although no later seal declares a change",
  ),
  items: z.array(Seal).describe("The seals of this page, by `sequence`"),
}).meta({ id: "SealsPage", description: "A page of the seals of one organization" });

export type SealsPage = z.infer<typeof SealsPage>;

const Action = z.object({
  code: z.string().regex(new RegExp(`^${CODE}$`)).describe("What entries have in `action`"),
  description: z.string().describe("What it means, for a person"),
  required: z.array(z.string()).describe(
    "Fields that `data` of a new entry always has, as strings",
  ),
  target: z.string().nullable().describe(
    "The field of `data` that names what the action was done to, as its id, or null",
  ),
  target_name: z.string().nullable().describe(
    "The field of `data` with the name by which a person knows the target, or null",
  ),
  deprecated_at: time.nullable().describe(
    "Since when the platform should not write it any more, or null. Older entries keep it",
  ),
}).meta({ id: "Action", description: "One kind of action" });

export const ActionsPage = z.object({
  organization_id: asked.organization_id,
  total: z.int().min(0).describe("How many actions there are"),
  items: z.array(Action).describe("All actions"),
}).meta({ id: "ActionsPage", description: "The actions that entries may have" });

export type ActionsPage = z.infer<typeof ActionsPage>;
