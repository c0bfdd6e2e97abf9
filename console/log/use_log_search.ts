import { getRouteApi } from "@tanstack/react-router";
import { useCallback } from "react";
import type { AuditEntry } from "../data/entries.ts";
import type { LogSearch } from "../shared/search_params.ts";

export const NO_ENTRY = { entry: undefined, at: undefined };

const route = getRouteApi("/$organizationId/log");

/** What the address says of the log, and how a person changes it. */
export function useLogSearch() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  return {
    search,
    change: (changes: Partial<LogSearch>) =>
      navigate({ search: (before) => ({ ...before, ...NO_ENTRY, ...changes }) }),
    /** Opens an entry, or closes the one that is open. Always the same function, or all rows would be drawn again. */
    open: useCallback(
      (entry: AuditEntry | undefined) =>
        navigate({
          search: (before) => ({ ...before, entry: entry?.id, at: entry?.created_at }),
          resetScroll: false,
        }),
      [navigate],
    ),
  };
}
