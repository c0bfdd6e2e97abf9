import { useMutation, useQueryClient } from "@tanstack/react-query";
import type * as z from "zod/mini";
import { checkSession } from "../auth/session.ts";
import { type Arguments, call, type Functions } from "./call.ts";
import { useOrganization } from "./organizations.ts";

/**
 * Changes something of the organization, then reads the list under this query key again. After a lost answer, the list
 * shows what happened.
 */
export function useChange<Name extends keyof Functions, Answer>(
  name: Name,
  schema: z.ZodMiniType<Answer>,
  list: "keys" | "streams",
) {
  const client = useQueryClient();
  const { id } = useOrganization();
  return useMutation({
    mutationFn: async (request: Omit<Arguments<Name>, "organization_id">) => {
      // The database takes the session's token until it expires, also after a person has signed out everywhere.
      await checkSession();
      return await call(schema, name, { organization_id: id, ...request } as Arguments<Name>);
    },
    onSettled: () => client.invalidateQueries({ queryKey: [list, id] }),
  });
}
