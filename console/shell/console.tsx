import "../print.css";
import "./mantine.css";
import { Anchor, Box, Group } from "@mantine/core";
import { RouterProvider } from "@tanstack/react-router";
import { useState } from "react";
import { CheckPack, newRouter } from "./router.tsx";
import { EmailContext } from "./shell.tsx";

/** All that a person sees after signing in. The sign-in form does not wait for these scripts. */
export default function Console({ email }: { email: string }) {
  const [router] = useState(newRouter);
  return (
    <EmailContext value={email}>
      <RouterProvider router={router} />
    </EmailContext>
  );
}

/** The screen of `?pack`: an evidence pack is checked in the browser, for anybody. */
export function WithoutSignIn() {
  return (
    <Box maw={960} mx="auto" px="md" py="lg">
      <Group component="header" gap="sm" mb="xl">
        <img src="./icon.svg" alt="" width={28} height={28} />
        <strong>Audit log</strong>
        <Anchor href="./" inherit ml="auto">Sign in</Anchor>
      </Group>
      <main>
        <CheckPack />
      </main>
    </Box>
  );
}
