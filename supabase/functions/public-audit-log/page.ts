import { z } from "zod";
import { Query } from "./query.ts";

const entry = {
  id: z.uuid().describe("Names the entry, together with `created_at`"),
  created_at: z.string().regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    .meta({ format: "date-time" }).describe("When it happened, to the millisecond, in UTC"),
  user_email: z.string().describe("The e-mail address of the user who did it"),
  agent_name: z.string().describe("The name of the agent concerned"),
};

const { message_created, ...otherActions } = Query.shape.action.unwrap().enum;

const MessageCreated = z.object({
  ...entry,
  action: z.literal(message_created),
  data: z.object({
    message_id: z.string(),
    conversation_id: z.string(),
    agent_id: z.string(),
    platform_agent_sid: z.string(),
  }).describe("What the message belongs to"),
}).meta({ id: "MessageCreated", description: "A user sent a message in a conversation" });

const OtherEntry = z.object({
  ...entry,
  action: z.enum(otherActions).describe(
    "`agent_added`: an agent was activated for the organization; `conversation_created`: a user " +
      "started a conversation; `feedback_given`: a user gave thumbs up or down on a message",
  ),
  data: z.record(z.string(), z.unknown()).describe("What the action is about"),
}).meta({ id: "OtherEntry", description: "An entry with any other action" });

/** The body of a 200. */
export const Page = z.object({
  organization_id: z.uuid().describe("The organization that owns the API key"),
  start: Query.shape.start.describe("As in the request"),
  end: Query.shape.end.describe("As in the request"),
  total: z.int().min(0).describe("How many entries match in all, at the same moment as `items`"),
  limit: Query.shape.limit.unwrap().describe("As in the request, or its default"),
  offset: Query.shape.offset.unwrap().describe("As in the request, or its default"),
  items: z.array(
    z.discriminatedUnion("action", [MessageCreated, OtherEntry]).meta({
      id: "AuditEntry",
      description: "One action of one user",
    }),
  ).describe("The entries of this page"),
}).meta({ id: "Page", description: "A page of the audit log of one organization" });

export type Page = z.infer<typeof Page>;
