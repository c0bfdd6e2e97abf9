import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { lazy, Suspense, useEffect, useMemo } from "react";
import { SecondFactor } from "../auth/second_factor.tsx";
import { needsSecondFactor, useSession } from "../auth/session.ts";
import { SignIn } from "../auth/sign_in.tsx";
import { Loading } from "../shared/parts.tsx";
import { loaded, RequestError } from "../shared/transport.ts";

const RETRY_MS = 5_000;

const loadConsole = () => loaded(import("./console.tsx"));
const Console = lazy(loadConsole);

export function App() {
  const { session, reason } = useSession();
  const userId = session?.user.id;
  // Each person gets a client of their own, so that nobody sees what another has read.
  const client = useMemo(newClient, [userId]);
  // Loads while the person types. If that fails, the console tries again when it is needed.
  useEffect(() => {
    if (session === null) loadConsole().catch(() => {});
  }, [session === null]);
  function screen() {
    if (session === undefined) return <Loading what="your session" />;
    if (session && needsSecondFactor(session)) return <SecondFactor session={session} />;
    if (session) return <Console email={session.user.email ?? "Account"} />;
    return <SignIn reason={reason} />;
  }
  return (
    <QueryClientProvider key={userId} client={client}>
      <Suspense fallback={<Loading what="the console" />}>{screen()}</Suspense>
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
