import { Link } from "@tanstack/react-router";
import { useOrganization } from "../data/organizations.ts";
import styles from "../shell/shell.module.css";

const TABS = [
  { to: "/$organizationId/keys", name: "API keys" },
  { to: "/$organizationId/usage", name: "Readers" },
] as const;

export function AccessTabs() {
  const { id: organizationId, is_admin } = useOrganization();
  if (!is_admin) return null;
  return (
    <nav aria-label="Access">
      {TABS.map(({ to, name }) => (
        <Link
          key={to}
          className={styles.link}
          to={to}
          params={{ organizationId }}
          activeOptions={{ includeSearch: false }}
        >
          {name}
        </Link>
      ))}
    </nav>
  );
}
