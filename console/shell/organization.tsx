import { useQuery } from "@tanstack/react-query";
import { Link, Navigate, Outlet, useLocation, useParams } from "@tanstack/react-router";
import { useEffect } from "react";
import { OrganizationContext, ORGANIZATIONS, useReadable } from "../data/organizations.ts";
import { Empty, Head, Lead } from "../shared/parts.tsx";
import { STORAGE } from "../shared/transport.ts";
import { screensFor } from "./screens.ts";

/** Where the browser keeps the id of the last organization. */
const LAST_ORGANIZATION = "audit-log-console-organization";

/** Leads to the organization that the person looked at last, or to the first if they may not read that one. */
export function Home() {
  const readable = useReadable();
  const last = STORAGE?.getItem(LAST_ORGANIZATION);
  const organization = readable.find(({ id }) => id === last) ?? readable[0];
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
      <Head title="No access" />
      <Empty title="Nothing to read">
        <Lead>
          You may read no organization's log. Ask an administrator of {names || "your organization"}
          {" "}
          to make you an administrator or auditor, then reload this page.
        </Lead>
      </Empty>
    </>
  );
}

/** The screens of the organization that the address names. */
export function Readable() {
  const { organizationId } = useParams({ from: "/$organizationId" });
  const screen = useLocation().pathname.split("/")[2];
  const readable = useReadable();
  const found = readable.find(({ id }) => id === organizationId);
  useEffect(() => {
    if (found) STORAGE?.setItem(LAST_ORGANIZATION, found.id);
  }, [found?.id]);
  if (readable.length === 0) return <Nothing />;
  if (found) {
    const screens = screensFor(found);
    const [first] = screens;
    if (!first) return <Empty title="For administrators">Only they manage API keys.</Empty>;
    if (!screens.some(({ path }) => path === screen)) {
      return <Navigate to={first.to} params={{ organizationId }} replace />;
    }
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
        You may not read the organization in the address.
        <Link to="/">Open one that you may read</Link>
      </Empty>
    </>
  );
}
