import { Alert, Button, Group, Menu, Select, Text, VisuallyHidden } from "@mantine/core";
import { useNetwork } from "@mantine/hooks";
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, Outlet, useLocation, useNavigate, useParams } from "@tanstack/react-router";
import { createContext, useContext } from "react";
import { checkSession, signOut } from "../auth/session.ts";
import { type Organization, ORGANIZATIONS, useReadable } from "../data/organizations.ts";
import { useAlteredDays } from "../data/seals.ts";
import { isInTrouble, useHasStreams, useStreams } from "../data/streams.ts";
import { count } from "../shared/days.ts";
import { Icon } from "../shared/icons.tsx";
import { Notices } from "../shared/notice.tsx";
import { Failure, Loading } from "../shared/parts.tsx";
import { IS_SESSION_SHARED } from "../shared/transport.ts";
import { roomsFor } from "./rooms.ts";
import styles from "./shell.module.css";

/** The e-mail of the person who has signed in. */
export const EmailContext = createContext("");

/** How often Auth is asked about the session. */
const CHECK_MS = 60_000;

/** What surrounds all screens: a sidebar; on a phone, a bar at the top. */
export function Shell() {
  const { organizationId } = useParams({ strict: false });
  const organizations = useQuery(ORGANIZATIONS);
  const readable = useReadable();
  const chosen = readable.find(({ id }) => id === organizationId);
  const { online } = useNetwork();
  useQuery({
    queryKey: ["session"],
    queryFn: checkSession,
    refetchInterval: CHECK_MS,
    refetchOnWindowFocus: "always",
  });
  return (
    <div className={styles.shell}>
      <header className={styles.side}>
        <a
          className={styles.skip}
          href="#content"
          onClick={(event) => {
            // The router would take #content for an address of its own.
            event.preventDefault();
            document.querySelector("main")?.focus();
          }}
        >
          Skip to the content
        </a>
        <Group className={styles.brand ?? ""} gap="xs" px={6} fz={15} fw={600}>
          <img src="./icon.svg" alt="" width={22} height={22} />
          <span>Audit log</span>
        </Group>
        {readable.length > 0 && <Switcher chosen={chosen?.id} />}
        {chosen && <Rooms organization={chosen} />}
        <Account />
      </header>
      <main id="content" tabIndex={-1}>
        {organizations.isPending && <Loading what="your organizations" />}
        {!organizations.data && (
          <Failure error={organizations.error} onRetry={organizations.refetch} />
        )}
        {!online && (
          <Alert color="yellow" role="status" mb="sm">
            You are offline. What you see was read before, and nothing can be changed until you are
            connected.
          </Alert>
        )}
        {chosen && <Altered organizationId={chosen.id} />}
        {organizations.data && <Outlet />}
        <Notices />
      </main>
    </div>
  );
}

function Rooms({ organization }: { organization: Organization }) {
  const { data: streams = [] } = useStreams(organization.id);
  const troubled = streams.filter(isInTrouble).length;
  const screen = useLocation().pathname.split("/")[2];
  return (
    <nav aria-label="Rooms">
      {roomsFor(organization, useHasStreams(organization.id)).map((
        { name, icon, paths: [first, ...others] },
      ) => (
        <Link
          key={name}
          className={styles.link}
          to={`/$organizationId/${first ?? "log"}`}
          params={{ organizationId: organization.id }}
          activeOptions={{ includeSearch: false }}
          aria-current={others.some((path) => path === screen) ? "page" : undefined}
        >
          <Icon name={icon} />
          {name}
          {name === "Destinations" && troubled > 0 && (
            <span className={styles.trouble} title="Needs attention">
              <VisuallyHidden>{count(troubled, "needs", "need")} attention</VisuallyHidden>
            </span>
          )}
        </Link>
      ))}
    </nav>
  );
}

/** Warns on every screen of days that were altered after sealing, of any age. The seals also say what to do. */
function Altered({ organizationId }: { organizationId: string }) {
  const { data: [day, ...others] = [] } = useAlteredDays(organizationId);
  const screen = useLocation().pathname.split("/")[2];
  if (!day) return null;
  const params = { organizationId };
  return (
    <Alert color="red" role="alert" mb="sm">
      <Link to="/$organizationId/log" params={params} search={{ start: day, end: day }}>{day}</Link>
      {others.length > 0 ? ` and ${count(others.length, "other day")} were` : " was"}{" "}
      altered after sealing. {screen !== "seals" && (
        <Link
          to="/$organizationId/seals"
          params={params}
          search={{ start: day, end: others.at(-1) ?? day }}
        >
          What to do
        </Link>
      )}
    </Alert>
  );
}

function Switcher({ chosen }: { chosen: string | undefined }) {
  const navigate = useNavigate();
  const readable = useReadable();
  if (readable.length === 1 && chosen) {
    return (
      <Text className={styles.organization ?? ""} component="bdi" inherit truncate px={6} fw={500}>
        {readable[0]?.name}
      </Text>
    );
  }
  return (
    <Select
      className={styles.organization ?? ""}
      aria-label="Organization"
      placeholder="Choose an organization"
      data={readable.map(({ id, name }) => ({ value: id, label: name }))}
      value={chosen ?? null}
      searchable={readable.length > 10}
      openOnFocus={false}
      nothingFoundMessage="No such organization"
      // What is typed takes the place of the present name.
      onFocus={({ currentTarget }) => currentTarget.select()}
      onClick={({ currentTarget }) => currentTarget.select()}
      checkIconPosition="right"
      // Keeps the list inside the header's landmark, for screen readers.
      comboboxProps={{ withinPortal: false }}
      onChange={(organizationId) =>
        organizationId && navigate({ to: "/$organizationId/log", params: { organizationId } })}
    />
  );
}

function Account() {
  const email = useContext(EmailContext);
  const leaving = useMutation({
    mutationFn: signOut,
    // Otherwise the next person would start where this one was.
    onSuccess: () => location.replace("#/"),
  });
  return (
    <div className={styles.account}>
      <Menu width={220} position="top-start">
        <Menu.Target>
          <Button
            variant="subtle"
            color="gray"
            fullWidth
            px="xs"
            justify="flex-start"
            leftSection={<Icon name="person" />}
            aria-label={email}
          >
            <Text span inherit truncate miw={0}>{email}</Text>
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item onClick={() => leaving.mutate("local")}>Sign out</Menu.Item>
          {/* A shared session is the other application's. */}
          {!IS_SESSION_SHARED && (
            <Menu.Item onClick={() => leaving.mutate("global")}>Sign out everywhere</Menu.Item>
          )}
        </Menu.Dropdown>
      </Menu>
      <Failure error={leaving.error} />
    </div>
  );
}
