import { Button, Menu, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { createContext, lazy, Suspense, useContext, useState } from "react";
import { signOut } from "../auth/session.ts";
import { Icon } from "../shared/icons.tsx";
import { Failure } from "../shared/parts.tsx";
import { IS_EMBEDDED, IS_SESSION_SHARED } from "../shared/transport.ts";
import styles from "./shell.module.css";

export const EmailContext = createContext("");

const Factors = lazy(() => import("../auth/factors.tsx"));

export function Account() {
  const email = useContext(EmailContext);
  const [isOpen, setIsOpen] = useState(false);
  const leaving = useMutation({
    mutationFn: signOut,
    // Otherwise the next person would start where this one was.
    onSuccess: () => location.replace("#/"),
  });
  // In a frame, the page around it signs people in and out.
  if (IS_EMBEDDED) return <div className={styles.account}>{email}</div>;
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
          <Menu.Item onClick={() => setIsOpen(true)}>Second factor …</Menu.Item>
          <Menu.Item onClick={() => leaving.mutate("local")}>Sign out</Menu.Item>
          {/* A shared session is the other application's. */}
          {!IS_SESSION_SHARED && (
            <Menu.Item onClick={() => leaving.mutate("global")}>Sign out everywhere</Menu.Item>
          )}
        </Menu.Dropdown>
      </Menu>
      <Suspense>{isOpen && <Factors onClose={() => setIsOpen(false)} />}</Suspense>
      <Failure error={leaving.error} />
    </div>
  );
}
