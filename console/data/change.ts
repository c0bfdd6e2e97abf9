import { useMutation, useQueryClient } from "@tanstack/react-query";
import type * as z from "zod/mini";
import { checkSession } from "../auth/session.ts";
import { RequestError } from "../shared/transport.ts";
import { type Arguments, call, type Functions } from "./call.ts";
import { useOrganization } from "./organizations.ts";

interface ChangeOptions {
  /** The list that is read again afterwards. After a lost answer, it shows what happened. */
  list: "keys" | "streams";
  /** What to say after a lost answer. */
  ifLost: string;
  /** What to say if an earlier attempt, whose answer was lost, has made this. */
  ifMade?: string;
}

/** PostgreSQL's code for an id that is there. */
const IS_THERE = "23505";

export function useChange<Name extends keyof Functions, Answer>(
  name: Name,
  schema: z.ZodMiniType<Answer>,
  { list, ifLost, ifMade }: ChangeOptions,
) {
  const client = useQueryClient();
  const { id } = useOrganization();
  return useMutation({
    mutationFn: async (request: Omit<Arguments<Name>, "organization_id">) => {
      // The database takes the session's token until it expires, also after a person has signed out everywhere.
      await checkSession();
      const args = { organization_id: id, ...request } as Arguments<Name>;
      return await call(schema, name, args).catch((error: RequestError) => {
        if (error.code === IS_THERE && ifMade) throw new RequestError(ifMade);
        if (!error.isOutcomeUnknown) throw error;
        throw new RequestError(`${error.message} ${ifLost}`);
      });
    },
    onSettled: () => client.invalidateQueries({ queryKey: [list, id] }),
  });
}
