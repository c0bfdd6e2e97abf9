import { queryOptions, useQuery } from "@tanstack/react-query";
import { createContext, useContext } from "react";
import * as z from "zod/mini";
import { call, SHOWN } from "./call.ts";

const ORGANIZATION = z.object({
  id: z.string(),
  name: SHOWN,
  is_admin: z.boolean(),
  may_read: z.boolean(),
});
export type Organization = z.infer<typeof ORGANIZATION>;

/** The person's organizations by name, each with whether the person may administer or read it now. */
export const ORGANIZATIONS = queryOptions({
  queryKey: ["organizations"],
  queryFn: async () => {
    const organizations = await call(z.array(ORGANIZATION), "list_organizations", {});
    // "Customer 2" before "Customer 10".
    return organizations.sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  },
});

export function useReadable(): Organization[] {
  return useQuery(ORGANIZATIONS).data?.filter(({ may_read }) => may_read) ?? [];
}

export const OrganizationContext = createContext<Organization | null>(null);

export function useOrganization(): Organization {
  const organization = useContext(OrganizationContext);
  if (!organization) throw new Error("no organization around this screen");
  return organization;
}
