import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { useMemo } from "react";
import { SecondFactor } from "../auth/second_factor.tsx";
import { needsSecondFactor, useSession } from "../auth/session.ts";
import { SignIn } from "../auth/sign_in.tsx";
import { Loading } from "../shared/parts.tsx";
import { IS_EMBEDDED, RequestError } from "../shared/transport.ts";
import { newRouter } from "./router.tsx";
import { EmailContext } from "./shell.tsx";

const RETRY_MS = 5_000;

export function App() {
  const { session, reason } = useSession();
  const userId = session?.user.id;
  // Each person gets a client of their own, so that nobody sees what another has read.
  const client = useMemo(newClient, [userId]);
  const router = useMemo(newRouter, [client]);
  return (
    <QueryClientProvider key={userId} client={client}>
      {session === undefined && <Loading what="your session" />}
      {session === null && (IS_EMBEDDED
        ? <Loading what="your session from the page around this one" />
        : <SignIn reason={reason} />)}
      {session && needsSecondFactor(session) && <SecondFactor session={session} />}
      {session && !needsSecondFactor(session) && (
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
        // Otherwise the console seems to load for ever when it is offline.
        networkMode: "always",
        refetchOnReconnect: true,
        retry: 1,
        staleTime: 5_000,
        refetchInterval: ({ state: { error } }) =>
          error instanceof RequestError && error.isOutcomeUnknown ? RETRY_MS : false,
      },
      // Forgets an answer, such as a token, when its dialog closes.
      mutations: { networkMode: "always", gcTime: 0 },
    },
  });
}
