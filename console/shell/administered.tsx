import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useParams } from "@tanstack/react-router";
import { useEffect } from "react";
import { Empty, Head } from "../shared/parts.tsx";
import { STORAGE } from "../shared/transport.ts";
import {
  type Organization,
  OrganizationContext,
  ORGANIZATIONS,
  useAdministered,
} from "./organization.ts";

/** Where the browser keeps the id of the organization that one looked at last. */
const LAST_ORGANIZATION = "audit-log-console-organization";

/** The organization that one looked at last. If one does not administer it any more, the first. */
export function lastOrganization(organizations: Organization[]): string | undefined {
  const administered = organizations.filter(({ is_admin }) => is_admin);
  const last = STORAGE?.getItem(LAST_ORGANIZATION);
  return (administered.find(({ id }) => id === last) ?? administered[0])?.id;
}

/** For a person who administers no organization. */
export function Nothing() {
  const organizations = useQuery(ORGANIZATIONS).data ?? [];
  const names = new Intl.ListFormat("en", { type: "disjunction" })
    .format(organizations.map(({ name }) => name));
  return (
    <>
      <Head title="Nothing to administer" />
      <p>
        You administer no organization. Ask an administrator of {names || "your organization"}{" "}
        to make you an administrator, too, then reload this page.
      </p>
    </>
  );
}

/** The screens of the organization that the address names. */
export function Administered() {
  const { organizationId } = useParams({ from: "/$organizationId" });
  const administered = useAdministered();
  const found = administered.find(({ id }) => id === organizationId);
  useEffect(() => {
    if (found) STORAGE?.setItem(LAST_ORGANIZATION, found.id);
  }, [found?.id]);
  if (administered.length === 0) return <Nothing />;
  if (!found) {
    return (
      <>
        <Head title="No access" />
        <Empty title="Another organization">
          <p>You do not administer the organization in the address. Choose one that you do:</p>
          <ul>
            {administered.map(({ id, name }) => (
              <li key={id}>
                <Link to="/$organizationId/log" params={{ organizationId: id }}>
                  <bdi>{name}</bdi>
                </Link>
              </li>
            ))}
          </ul>
        </Empty>
      </>
    );
  }
  return (
    <OrganizationContext value={found}>
      <Outlet key={found.id} />
    </OrganizationContext>
  );
}
