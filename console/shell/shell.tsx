import { Alert, Button, Group, Menu, NativeSelect, Text, VisuallyHidden } from "@mantine/core";
import { useNetwork } from "@mantine/hooks";
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, Outlet, useLocation, useNavigate, useParams } from "@tanstack/react-router";
import { createContext, useContext } from "react";
import { checkSession, signOut } from "../auth/session.ts";
import { type Organization, ORGANIZATIONS, useReadable } from "../data/organizations.ts";
import { useKept } from "../data/seals.ts";
import { isInTrouble, useHasStreams, useStreams } from "../data/streams.ts";
import { count } from "../shared/days.ts";
import { Icon } from "../shared/icons.tsx";
import { Notices } from "../shared/notice.tsx";
import { Failure, Loading } from "../shared/parts.tsx";
import { IS_SESSION_SHARED } from "../shared/transport.ts";
import styles from "./shell.module.css";

/** The e-mail of the person who has signed in. */
export const EmailContext = createContext("");

/** The rooms in the navigation, each with the paths of its screens. */
const ROOMS = [
  { name: "Activity", icon: "log", paths: ["log"] },
  { name: "Destinations", icon: "send", paths: ["streams"] },
  { name: "Access", icon: "key", paths: ["keys", "usage"] },
  { name: "Integrity", icon: "seal", paths: ["seals"] },
  { name: "Settings", icon: "settings", paths: ["settings"] },
] as const;

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
  const hasStreams = useHasStreams(organization.id);
  const troubled = streams.filter(isInTrouble).length;
  const screen = useLocation().pathname.split("/")[2];
  return (
    <nav aria-label="Rooms">
      {ROOMS.filter(({ name }) => hasStreams || name !== "Destinations").map((
        { name, icon, paths },
      ) => (
        <Link
          key={name}
          className={styles.link}
          // Only administrators see keys, the first screen of Access.
          to={`/$organizationId/${organization.is_admin ? paths[0] : paths.at(-1) ?? paths[0]}`}
          params={{ organizationId: organization.id }}
          activeOptions={{ includeSearch: false }}
          aria-current={paths.some((path) => path === screen) ? "page" : undefined}
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

/** Warns on every screen of days that were altered after sealing, of any age. */
function Altered({ organizationId }: { organizationId: string }) {
  const [day, ...others] = useKept(organizationId).data?.altered ?? [];
  if (!day) return null;
  return (
    <Alert color="red" role="alert" mb="sm">
      {day}
      {others.length > 0 ? ` and ${count(others.length, "other day")} were` : " was"}{" "}
      altered after sealing.{" "}
      <Link to="/$organizationId/seals" params={{ organizationId }}>What to do</Link>
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
  const data = readable.map(({ id, name }) => ({ value: id, label: name }));
  return (
    <NativeSelect
      className={styles.organization ?? ""}
      aria-label="Organization"
      data={chosen ? data : [{ value: "", label: "Choose an organization" }, ...data]}
      value={chosen ?? ""}
      onChange={({ currentTarget: { value: organizationId } }) =>
        navigate({ to: "/$organizationId/log", params: { organizationId } })}
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
