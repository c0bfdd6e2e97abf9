import type {
  ActionsPage,
  AuditEntry,
  Page,
  SealsPage,
} from "../../supabase/functions/public-audit-log/page_schema.ts";

/**
 * A value for each parameter. They are valid together, because some tools send all of them as their first request. The
 * demonstration log answers with entries.
 */
export const PARAMETER_EXAMPLES: Record<string, string | number> = {
  start: "2026-10-01",
  end: "2026-10-31",
  since: "2026-10-13T00:00:00Z",
  until: "2026-11-01T00:00:00Z",
  action: "agent_added,message_created",
  user_email: "ada@analytical.example",
  limit: 100,
  offset: 0,
  after: "beginning",
  order: "asc",
  object: "39470528-7d79-a50a-8005-8d054305127a",
  id: "86fcf175-11f2-9fac-655e-ba9d95717239",
  created_at: "2026-10-26T11:33:53.752Z",
};

const MESSAGE = {
  id: "86fcf175-11f2-9fac-655e-ba9d95717239",
  created_at: "2026-10-26T11:33:53.752Z",
  action: "message_created",
  user_email: "ada@analytical.example",
  agent_name: "Invoice Clerk",
  data: {
    agent_id: "39470528-7d79-a50a-8005-8d054305127a",
    message_id: "5304d1e0-6491-1f3c-35ed-b796e5f39988",
    conversation_id: "289dedab-0645-9d32-88d9-f04f38f69d11",
    platform_agent_sid: "AGc16cc58639890ece0ce60640403e7769",
  },
} satisfies AuditEntry;

/** Of both kinds of pages. */
const ASKED = {
  organization_id: "0a11ce00-0000-4000-8000-000000000001",
  start: "2026-10-01",
  end: "2026-10-31",
  total: 1,
  limit: 100,
  offset: 0,
};

const ACTION: ActionsPage["items"][number] = {
  code: "message_created",
  description: "A user sent a message in a conversation",
  required: ["message_id", "conversation_id", "agent_id", "platform_agent_sid"],
  target: "message_id",
  target_name: null,
  deprecated_at: null,
};

const SEAL: SealsPage["items"][number] = {
  format: 1,
  sequence: 320,
  day: "2026-10-12",
  entries: 23,
  added: 0,
  removed: 0,
  sha256: "c32217dc4e458e06a6f123cd760914f1f6e53ed2ad1b459f3fda4b70b5343477",
  sealed_at: "2026-11-27T10:50:18.389Z",
  previous: "f1ddff7025eb30fbef9bd85115ed1acccc2f298adae99fdfc4f05d9596af9f40",
  seal: "4c1b5525842143d8d66488243799a7524fce8907cafb502ccab2ab66b97f19af",
};

export const ANSWER_EXAMPLES = {
  AuditEntry: MESSAGE,
  Page: { ...ASKED, items: [MESSAGE] } satisfies Page,
  ActionsPage: { organization_id: ASKED.organization_id, total: 1, items: [ACTION] },
  SealsPage: { ...ASKED, altered: [], items: [SEAL] } satisfies SealsPage,
};
