import { Alert, Button, Group, Select, Text } from "@mantine/core";
import { onlineManager, useQuery } from "@tanstack/react-query";
import { Link, Outlet, useLocation, useNavigate, useParams } from "@tanstack/react-router";
import { useSyncExternalStore } from "react";
import { checkSession } from "../auth/session.ts";
import { Icon } from "../shared/icons.tsx";
import { Failure, Loading } from "../shared/parts.tsx";
import { Account } from "./account.tsx";
import { ORGANIZATIONS, useAdministered } from "./organization.ts";
import styles from "./shell.module.css";

const SCREENS = [
  { to: "/$organizationId/log", name: "Log", icon: "log" },
  { to: "/$organizationId/keys", name: "API keys", icon: "key" },
  { to: "/$organizationId/access", name: "Access", icon: "people" },
  { to: "/$organizationId/seals", name: "Seals", icon: "seal" },
] as const;

/** How often Auth is asked about the session. */
const CHECK_MS = 60_000;

/** The frame of all screens: a sidebar, on phones a bar at the top. */
export function Shell() {
  const { organizationId } = useParams({ strict: false });
  const screen = useLocation().pathname.split("/").at(-1);
  const organizations = useQuery(ORGANIZATIONS);
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
    <div className={styles.shell}>
      <header className={styles.side}>
        <a
          className={styles.skip}
          href="#content"
          onClick={(event) => {
            // The address after the # is the console's.
            event.preventDefault();
            document.querySelector("main")?.focus();
          }}
        >
          Skip to the content
        </a>
        <Group className={styles.brand ?? ""} gap="xs" fz={15}>
          <img src="./icon.svg" alt="" width={22} height={22} />
          <span>Audit log</span>
        </Group>
        {administered.length > 0 && <Switcher chosen={isKnown ? organizationId : undefined} />}
        {isKnown && organizationId && (
          <nav aria-label="Screens">
            {SCREENS.map(({ to, name, icon }) => (
              <Button
                key={to}
                variant={screen === to.split("/").at(-1) ? "light" : "subtle"}
                color={screen === to.split("/").at(-1) ? "blue" : "gray"}
                justify="flex-start"
                leftSection={<Icon name={icon} />}
                renderRoot={(props) => (
                  <Link
                    {...props}
                    to={to}
                    params={{ organizationId }}
                    activeOptions={{ includeSearch: false }}
                  />
                )}
              >
                {name}
              </Button>
            ))}
          </nav>
        )}
        <Account />
      </header>
      <main id="content" tabIndex={-1}>
        {!isOnline && (
          <Alert color="gray" role="status">
            You are offline. What you see may be out of date; it is read again when the connection
            is back.
          </Alert>
        )}
        {organizations.isPending && <Loading what="your organizations" />}
        {!organizations.data && (
          <Failure error={organizations.error} onRetry={organizations.refetch} />
        )}
        {organizations.data && <Outlet />}
      </main>
    </div>
  );
}

function Switcher({ chosen }: { chosen: string | undefined }) {
  const navigate = useNavigate();
  const administered = useAdministered();
  if (administered.length === 1 && chosen) {
    return (
      <Text className={styles.organization ?? ""} component="bdi" inherit truncate px={6} fw={500}>
        {administered[0]?.name}
      </Text>
    );
  }
  return (
    <Select
      className={styles.organization ?? ""}
      aria-label="Organization"
      placeholder="Choose an organization"
      data={administered.map(({ id, name }) => ({ value: id, label: name }))}
      value={chosen ?? null}
      searchable={administered.length > 10}
      openOnFocus={false}
      checkIconPosition="right"
      // In the landmark where its field is.
      comboboxProps={{ withinPortal: false }}
      onChange={(organizationId) =>
        organizationId && navigate({ to: "/$organizationId/log", params: { organizationId } })}
    />
  );
}
