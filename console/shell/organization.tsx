import { useQuery } from "@tanstack/react-query";
import { Link, Navigate, Outlet, useParams } from "@tanstack/react-router";
import { useEffect } from "react";
import { OrganizationContext, ORGANIZATIONS, useAdministered } from "../data/organizations.ts";
import { Empty, Head } from "../shared/parts.tsx";
import { STORAGE } from "../shared/transport.ts";

/** Where the browser keeps the id of the last organization. */
const LAST_ORGANIZATION = "audit-log-console-organization";

/** Leads to the organization that the person looked at last, or to the first if they do not administer that one. */
export function Home() {
  const administered = useAdministered();
  const last = STORAGE?.getItem(LAST_ORGANIZATION);
  const organization = administered.find(({ id }) => id === last) ?? administered[0];
  if (!organization) return <Nothing />;
  const params = { organizationId: organization.id };
  return <Navigate to="/$organizationId/log" params={params} replace />;
}

function Nothing() {
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
  if (found) {
    return (
      <OrganizationContext value={found}>
        <Outlet key={found.id} />
      </OrganizationContext>
    );
  }
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
