import * as z from "zod/mini";
import { RANGE } from "../shared/range.tsx";
import { ACTIONS } from "./data.ts";

const ADDRESS = z.object({
  ...RANGE,
  action: z.catch(z.optional(z.enum(ACTIONS)), undefined),
  page: z.catch(z.optional(z.int().check(z.gte(1))), undefined),
  size: z.catch(z.optional(z.literal([100, 1000])), undefined),
  time: z.catch(z.optional(z.literal("local")), undefined),
  follow: z.catch(z.optional(z.literal(true)), undefined),
  /** The entry that is open, and its `created_at`, which together identify it. */
  entry: z.catch(z.optional(z.string()), undefined),
  at: z.catch(z.optional(z.iso.datetime()), undefined),
});
export type LogAddress = z.infer<typeof ADDRESS>;

export function readLogAddress(search: unknown): LogAddress {
  return z.parse(ADDRESS, search);
}
