// The examples that the contract shows.
import type {
  ActionsPage,
  Page,
  SealsPage,
} from "../../supabase/functions/public-audit-log/page_schema.ts";

/** A page of entries. */
export const PAGE: Page = {
  organization_id: "0a11ce00-0000-4000-8000-000000000001",
  start: "2026-11-01",
  end: "2026-11-20",
  total: 2,
  limit: 100,
  offset: 0,
  items: [
    {
      id: "01a1b01e-9b04-7e70-8342-9325992eb6a2",
      created_at: "2026-11-06T09:09:18.212Z",
      action: "message_created",
      user_email: "ada@analytical.example",
      agent_name: "Contract Reviewer",
      data: {
        message_id: "m-81",
        conversation_id: "c-12",
        agent_id: "a-3",
        platform_agent_sid: "AG0f3a",
      },
    },
    {
      id: "01a1b02a-1c40-7b11-a3c5-0e1f2d3c4b5a",
      created_at: "2026-11-06T09:21:52.064Z",
      action: "feedback_given",
      user_email: "charles@analytical.example",
      agent_name: "Contract Reviewer",
      data: { feedback: "up", message_id: "m-81" },
    },
  ],
};

/** A page of seals. */
export const SEALS_PAGE: SealsPage = {
  organization_id: "0a11ce00-0000-4000-8000-000000000001",
  start: "2026-11-06",
  end: "2026-11-06",
  total: 1,
  limit: 100,
  offset: 0,
  altered: [],
  items: [{
    format: 1,
    sequence: 1,
    day: "2026-11-06",
    entries: 2,
    added: 0,
    removed: 0,
    sha256: "78ad0d52dc37d8701b17b252a9ed719aece57d243454eb1baebfc0e8ea2240a7",
    sealed_at: "2026-11-07T00:15:00.381Z",
    previous: "0".repeat(64),
    seal: "8bae13156d9f7efd1c1305256411a6f248d3b486c4065ffe6d27056be182731d",
  }],
};

/** A list of actions. */
export const ACTIONS_PAGE: ActionsPage = {
  organization_id: "0a11ce00-0000-4000-8000-000000000001",
  total: 1,
  items: [{
    code: "message_created",
    description: "A user sent a message in a conversation",
    required: ["message_id", "conversation_id", "agent_id", "platform_agent_sid"],
    deprecated_at: null,
  }],
};

/** What is wrong with a query of bad values. */
export const BAD_VALUES = [
  {
    parameter: "start",
    detail: '"2026-02-30": must be a real day, YYYY-MM-DD, of the years 0001 to 9999',
  },
  {
    parameter: "end",
    detail: "missing: must be a real day, YYYY-MM-DD, of the years 0001 to 9999",
  },
  { parameter: "limit", detail: '"5000": must be a whole number from 1 to 1000' },
];
