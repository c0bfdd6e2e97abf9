import { useQuery } from "@tanstack/react-query";
import { Link, Navigate, Outlet, useLocation, useParams } from "@tanstack/react-router";
import { type ReactNode, useContext, useEffect } from "react";
import { OrganizationContext, ORGANIZATIONS, useReadable } from "../data/organizations.ts";
import { useHasStreams } from "../data/streams.ts";
import { Copy } from "../shared/copy.tsx";
import { Empty, Head, Lead } from "../shared/parts.tsx";
import { CONSOLE_URL } from "../shared/transport.ts";
import { EmailContext } from "./shell.tsx";

/** Where the browser keeps the id of the last organization. */
const LAST_ORGANIZATION = "audit-log-console-organization";

/** Leads to the organization that the person looked at last, or to the first if they may not read that one. */
export function Home() {
  const readable = useReadable();
  const last = localStorage.getItem(LAST_ORGANIZATION);
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
    <NoAccess title="Nothing to read" organization={names || "our organization"}>
      You may not read any organization's log. Ask an administrator of{" "}
      {names || "your organization"}{" "}
      to make you an auditor, or an administrator, who also manages API keys. Then reload this page.
    </NoAccess>
  );
}

interface NoAccessProps {
  title: string;
  organization: string;
  children: ReactNode;
}

function NoAccess({ title, organization, children }: NoAccessProps) {
  const email = useContext(EmailContext);
  return (
    <>
      <Head title="No access" />
      <Empty title={title}>
        <Lead>{children}</Lead>
        <Copy
          label="a request to send"
          text={`Please let ${email} read the audit log of ${organization}: ${CONSOLE_URL}`}
        />
      </Empty>
    </>
  );
}

/** Leads from an address without a screen for this person to the log. */
export function ToLog() {
  const { organizationId } = useParams({ from: "/$organizationId" });
  return <Navigate to="/$organizationId/log" params={{ organizationId }} replace />;
}

/** The screens of the organization that the address names. */
export function Readable() {
  const { organizationId } = useParams({ from: "/$organizationId" });
  const screen = useLocation().pathname.split("/")[2];
  const readable = useReadable();
  const found = readable.find(({ id }) => id === organizationId);
  const hasStreams = useHasStreams(organizationId, found !== undefined);
  useEffect(() => {
    if (found) localStorage.setItem(LAST_ORGANIZATION, found.id);
  }, [found?.id]);
  if (readable.length === 0) return <Nothing />;
  if (found) {
    if (screen === "keys" && !found.is_admin || screen === "streams" && !hasStreams) {
      return <ToLog />;
    }
    return (
      <OrganizationContext value={found}>
        <Outlet key={found.id} />
      </OrganizationContext>
    );
  }
  return (
    <NoAccess title="Another organization" organization={`organization ${organizationId}`}>
      You may not read the organization in the address. Ask an administrator of it, or whoever sent
      you the link, to let you read it. Or <Link to="/">open one that you may read</Link>.
    </NoAccess>
  );
}
