import * as z from "zod/mini";
import { compareNames } from "../shell/organization.ts";
import type { ApiKey } from "./data.ts";

export const STATES = {
  active: "Active",
  expiring: "Expires soon",
  expired: "Expired",
  revoked: "Revoked",
} as const satisfies Record<ApiKey["state"], string>;

export const STATE_COLOURS: Record<ApiKey["state"], string> = {
  active: "var(--good)",
  expiring: "var(--soon)",
  expired: "var(--waiting)",
  revoked: "var(--waiting)",
};

/** What a column is sorted by: a key that never expires comes last, one that was never used first. */
const SORTS = {
  name: (a: ApiKey, b: ApiKey) => compareNames(a.name, b.name),
  created: (a: ApiKey, b: ApiKey) => time(a.created_at) - time(b.created_at),
  expires: (a: ApiKey, b: ApiKey) => time(a.expires_at, NEVER) - time(b.expires_at, NEVER),
  used: (a: ApiKey, b: ApiKey) => time(a.last_used_at) - time(b.last_used_at),
};

const NEVER = Number.MAX_SAFE_INTEGER;

function time(value: string | null, ifNull = 0): number {
  return value ? Date.parse(value) : ifNull;
}

const ADDRESS = z.object({
  search: z.catch(z.optional(z.coerce.string()), undefined),
  state: z.catch(z.optional(z.enum(Object.keys(STATES) as ApiKey["state"][])), undefined),
  sort: z.catch(z.optional(z.enum(Object.keys(SORTS) as (keyof typeof SORTS)[])), undefined),
  descending: z.catch(z.optional(z.literal(true)), undefined),
  page: z.catch(z.optional(z.int().check(z.gte(1))), undefined),
});
export type KeysAddress = z.infer<typeof ADDRESS>;

export function readKeysAddress(search: unknown): KeysAddress {
  return z.parse(ADDRESS, search);
}

/** The keys that the address asks for, in its order; without one, as the database has them. */
export function select(keys: ApiKey[], { search, state, sort, descending }: KeysAddress): ApiKey[] {
  const text = search?.trim().toLowerCase() ?? "";
  const chosen = keys.filter((key) =>
    (!state || key.state === state) &&
    [key.name, key.hint, key.created_by_email, key.revoked_by_email]
      .some((field) => field?.toLowerCase().includes(text))
  );
  if (!sort) return chosen;
  return chosen.sort((a, b) => descending ? SORTS[sort](b, a) : SORTS[sort](a, b));
}
