import "./mantine.css";
import { RouterProvider } from "@tanstack/react-router";
import { useState } from "react";
import { newRouter } from "./router.tsx";
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
