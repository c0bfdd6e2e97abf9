import { Button, Menu, Select } from "@mantine/core";
import {
  onlineManager,
  QueryClient,
  QueryClientProvider,
  useMutation,
  useQuery,
} from "@tanstack/react-query";
import {
  createHashHistory,
  createRootRoute,
  createRoute,
  createRouter,
  Link,
  Navigate,
  Outlet,
  RouterProvider,
  useNavigate,
  useParams,
} from "@tanstack/react-router";
import { createContext, useContext, useEffect, useMemo, useSyncExternalStore } from "react";
import { listOrganizations, RequestError } from "./data.ts";
import { Keys, readKeysAddress } from "./keys.tsx";
import { Log, readLogAddress } from "./log.tsx";
import { Broken, Failure, Head, Loading, OrganizationContext } from "./parts.tsx";
import { readSealsAddress, Seals } from "./seals.tsx";
import { checkSession, signOut, useSession } from "./session.ts";
import { SignIn } from "./sign_in.tsx";

// The console's own addresses come after the #, because a host of static files knows one path only:
// #/<organization>/<screen>?<filters>. No secret is ever in them, and nothing else of the address is
// read. A link only chooses what is shown, among what the person may see; it changes nothing.

const root = createRootRoute({
  component: Shell,
  notFoundComponent: () => <Navigate to="/" replace />,
});
const home = createRoute({ getParentRoute: () => root, path: "/", component: Home });
const organization = createRoute({
  getParentRoute: () => root,
  path: "/$organizationId",
  component: Administered,
});
const index = createRoute({
  getParentRoute: () => organization,
  path: "/",
  component: () => <Navigate from="/$organizationId" to="/$organizationId/log" replace />,
});
const log = createRoute({
  getParentRoute: () => organization,
  path: "log",
  validateSearch: readLogAddress,
  component: Log,
});
const keys = createRoute({
  getParentRoute: () => organization,
  path: "keys",
  validateSearch: readKeysAddress,
  component: Keys,
});
const seals = createRoute({
  getParentRoute: () => organization,
  path: "seals",
  validateSearch: readSealsAddress,
  component: Seals,
});

export const router = createRouter({
  routeTree: root.addChildren([home, organization.addChildren([index, log, keys, seals])]),
  history: createHashHistory(),
  defaultErrorComponent: Broken,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}

const SCREENS = [
  { to: "/$organizationId/log", name: "Log" },
  { to: "/$organizationId/keys", name: "API keys" },
  { to: "/$organizationId/seals", name: "Seals" },
] as const;

/** What this browser remembers between visits: the id of the organization last looked at. */
const LAST_ORGANIZATION = "audit-log-console-organization";
/** How often a view asks again that got no answer, and how often Auth is asked about the session. */
const RETRY_MS = 5_000;
const CHECK_MS = 60_000;

const EmailContext = createContext("");

export function App() {
  const { session, reason } = useSession();
  const userId = session?.user.id;
  // A client for each person: what one has read is gone when another signs in.
  const client = useMemo(newClient, [userId]);
  return (
    <QueryClientProvider key={userId} client={client}>
      {session === undefined && <Loading what="your session" />}
      {session === null && <SignIn reason={reason} />}
      {session && (
        <EmailContext value={session.user.email ?? "Account"}>
          <RouterProvider router={router} />
        </EmailContext>
      )}
    </QueryClientProvider>
  );
}

function newClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        // Otherwise being offline would look like loading for ever.
        networkMode: "always",
        refetchOnReconnect: true,
        retry: 1,
        staleTime: 5_000,
        refetchInterval: ({ state: { error } }) =>
          error instanceof RequestError && error.isOutcomeUnknown ? RETRY_MS : false,
      },
      // What a mutation has answered, a token among it, is forgotten with its dialog.
      mutations: { networkMode: "always", gcTime: 0 },
    },
  });
}

function useOrganizations() {
  return useQuery({ queryKey: ["organizations"], queryFn: listOrganizations });
}

function useAdministered() {
  return useOrganizations().data?.filter(({ is_admin }) => is_admin) ?? [];
}

function Shell() {
  const { organizationId } = useParams({ strict: false });
  const organizations = useOrganizations();
  const administered = useAdministered();
  const isKnown = administered.some(({ id }) => id === organizationId);
  const isOnline = useSyncExternalStore(
    (onChange) => onlineManager.subscribe(onChange),
    () => onlineManager.isOnline(),
  );
  useQuery({
    queryKey: ["session"],
    queryFn: checkSession,
    refetchInterval: CHECK_MS,
    refetchOnWindowFocus: "always",
  });
  return (
    <>
      <header>
        <span className="brand">Audit log</span>
        {administered.length > 0 && <Switcher chosen={isKnown ? organizationId : undefined} />}
        {isKnown && organizationId && (
          <nav aria-label="Screens">
            {SCREENS.map(({ to, name }) => (
              <Link
                key={to}
                to={to}
                params={{ organizationId }}
                activeOptions={{ includeSearch: false }}
              >
                {name}
              </Link>
            ))}
          </nav>
        )}
        <Account />
      </header>
      {!isOnline && (
        <div className="offline" role="status">
          You are offline. What you see may be out of date; it is read again when the connection is
          back.
        </div>
      )}
      <main>
        {organizations.isPending && <Loading what="your organizations" />}
        {!organizations.data && (
          <Failure error={organizations.error} onRetry={organizations.refetch} />
        )}
        {organizations.data && <Outlet />}
      </main>
    </>
  );
}

function Switcher({ chosen }: { chosen: string | undefined }) {
  const navigate = useNavigate();
  const administered = useAdministered();
  if (administered.length === 1 && chosen) {
    return (
      <span className="organization">
        <bdi>{administered[0]?.name}</bdi>
      </span>
    );
  }
  return (
    <Select
      className="organization"
      aria-label="Organization"
      placeholder="Choose an organization"
      size="xs"
      data={administered.map(({ id, name }) => ({ value: id, label: name }))}
      value={chosen ?? null}
      searchable={administered.length > 10}
      checkIconPosition="right"
      // In the landmark where its field is.
      comboboxProps={{ withinPortal: false }}
      onChange={(organizationId) =>
        organizationId && navigate({ to: "/$organizationId/log", params: { organizationId } })}
    />
  );
}

function Account() {
  const leaving = useMutation({
    mutationFn: signOut,
    // The next person starts anew.
    onSuccess: () => location.replace("#/"),
  });
  return (
    <div className="account">
      <Menu width={260}>
        <Menu.Target>
          <Button variant="subtle" color="gray" size="compact-sm">
            <span className="email">{useContext(EmailContext)}</span>
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item onClick={() => leaving.mutate("local")}>Sign out</Menu.Item>
          <Menu.Item onClick={() => leaving.mutate("global")}>Sign out everywhere</Menu.Item>
        </Menu.Dropdown>
      </Menu>
      {leaving.error && <Failure error={leaving.error} />}
    </div>
  );
}

/** Leads to the organization that one has looked at last. */
function Home() {
  const organizations = useOrganizations().data ?? [];
  const administered = useAdministered();
  const last = localStorage.getItem(LAST_ORGANIZATION);
  const { id } = administered.find(({ id }) => id === last) ?? administered[0] ?? {};
  if (id) return <Navigate to="/$organizationId/log" params={{ organizationId: id }} replace />;
  const names = new Intl.ListFormat("en", { type: "disjunction" })
    .format(organizations.map(({ name }) => name));
  return (
    <>
      <Head title="Nothing to administer" />
      <p>
        You administer no organization. Ask an administrator of {names || "your organization"}{" "}
        to make you one, then reload this page.
      </p>
    </>
  );
}

function Administered() {
  const { organizationId } = organization.useParams();
  const administered = useAdministered();
  const found = administered.find(({ id }) => id === organizationId);
  useEffect(() => {
    if (found) localStorage.setItem(LAST_ORGANIZATION, found.id);
  }, [found?.id]);
  if (administered.length === 0) return <Navigate to="/" replace />;
  if (!found) {
    return (
      <>
        <Head title="No access" />
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
      </>
    );
  }
  return (
    <OrganizationContext value={found}>
      <Outlet key={found.id} />
    </OrganizationContext>
  );
}
