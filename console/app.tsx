import { QueryClient, QueryClientProvider, useMutation, useQuery } from "@tanstack/react-query";
import { useEffect, useState, useSyncExternalStore } from "react";
import { Button } from "react-aria-components";
import { listOrganizations, type Organization } from "./data.ts";
import { Keys } from "./keys.tsx";
import { Log } from "./log.tsx";
import { signOut, useSession } from "./session.ts";
import { SignIn } from "./sign_in.tsx";
import { Choice, Failure, Loading, Message } from "./ui.tsx";

const VIEWS = { keys: "API keys", log: "Log" };
type View = keyof typeof VIEWS;

export function App() {
  const { session, reason } = useSession();
  // A client for each person: what one has read is gone when another signs in.
  const person = session === undefined ? undefined : session?.user.id ?? "";
  return (
    <Queries key={person}>
      {session === undefined && (
        <main>
          <Loading what="your session" />
        </main>
      )}
      {session === null && <SignIn reason={reason} />}
      {session && <Console email={session.user.email ?? ""} />}
    </Queries>
  );
}

function Queries({ children }: { children: React.ReactNode }) {
  const [client] = useState(() =>
    new QueryClient({
      defaultOptions: {
        // Without "always", being offline would look like loading for ever.
        queries: { networkMode: "always", retry: 1, staleTime: 5_000 },
        mutations: { networkMode: "always", gcTime: 0 },
      },
    })
  );
  return <QueryClientProvider client={client}>{children}</QueryClientProvider>;
}

function Console({ email }: { email: string }) {
  const organizations = useQuery({ queryKey: ["organizations"], queryFn: listOrganizations });
  const [organizationId, view] = useHash();
  const administered = organizations.data?.filter(({ role }) => role === "admin") ?? [];
  const organization = administered.find(({ id }) => id === organizationId) ?? administered[0];
  const leaving = useMutation({ mutationFn: signOut });
  useEffect(() => {
    document.title = `${VIEWS[view]} – Audit log console`;
  }, [view]);
  return (
    <>
      <header>
        <span className="brand">Audit log console</span>
        {administered.length === 1 && <span>{organization?.name}</span>}
        {organization && administered.length > 1 && (
          <Choice
            label="Organization"
            isLabelHidden
            choices={administered}
            chosen={organization.id}
            onChange={(id) => {
              location.hash = hashOf(id, view);
            }}
          />
        )}
        {organization && (
          <nav aria-label="Views">
            {(Object.keys(VIEWS) as View[]).map((name) => (
              <a
                key={name}
                href={hashOf(organization.id, name)}
                aria-current={name === view ? "page" : undefined}
              >
                {VIEWS[name]}
              </a>
            ))}
          </nav>
        )}
        <div className="person">
          <span className="email">{email}</span>
          <Button
            className="button small"
            onPress={() => leaving.mutate()}
          >
            Sign out
          </Button>
        </div>
      </header>
      <main>
        {leaving.error && <Message kind="error">{leaving.error.message}</Message>}
        {organizations.isPending && <Loading what="your organizations" />}
        {organizations.isError && !organizations.data &&
          <Failure error={organizations.error} onRetry={organizations.refetch} />}
        {organizations.data && !organization && (
          <Message kind="info">
            <h1>Nothing to administer</h1>
            <p>
              {email} administers no organization. Ask an administrator of{" "}
              {names(organizations.data) || "your organization"}{" "}
              to make you one, then reload this page.
            </p>
          </Message>
        )}
        {organization && organizationId && organization.id !== organizationId && (
          <Message kind="warning">
            You do not administer the organization in the address. This is {organization.name}.
          </Message>
        )}
        {organization && (view === "log"
          ? <Log key={organization.id} organization={organization} />
          : <Keys key={organization.id} organization={organization} />)}
      </main>
    </>
  );
}

function names(organizations: Organization[]): string {
  return new Intl.ListFormat("en", { type: "disjunction" })
    .format(organizations.map(({ name }) => name));
}

// Where one is: #/<organization>/<view>. Nothing secret is ever in it.

function hashOf(organizationId: string, view: View): string {
  return `#/${organizationId}/${view}`;
}

function useHash(): [organizationId: string, view: View] {
  const hash = useSyncExternalStore(subscribeToHash, () => location.hash);
  const [, organizationId = "", view] = hash.split("/");
  return [organizationId, view === "log" ? "log" : "keys"];
}

function subscribeToHash(onChange: () => void): () => void {
  addEventListener("hashchange", onChange);
  return () => removeEventListener("hashchange", onChange);
}
