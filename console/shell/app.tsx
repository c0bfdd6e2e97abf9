import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { Activity, lazy, Suspense, useEffect, useMemo } from "react";
import { SecondFactor } from "../auth/second_factor.tsx";
import { needsSecondFactor, useSession } from "../auth/session.ts";
import { SignIn } from "../auth/sign_in.tsx";
import { Loading } from "../shared/parts.tsx";
import { loaded, RequestError } from "../shared/transport.ts";

const RETRY_MS = 5_000;

const loadConsole = () => loaded(import("./console.tsx"));
const Console = lazy(loadConsole);

export function App() {
  const { session, person, reason } = useSession();
  // Each person gets a client of their own, so that nobody sees what another has read.
  const client = useMemo(newClient, [person?.id]);
  const lacksFactor = session && needsSecondFactor(session);
  // Loads while the person types. If that fails, the console tries again when it is needed.
  useEffect(() => {
    if (session === null) loadConsole().catch(() => {});
  }, [session === null]);
  return (
    <QueryClientProvider key={person?.id} client={client}>
      {session === undefined && <Loading what="your session" />}
      {session === null && <SignIn reason={reason} />}
      {lacksFactor && <SecondFactor session={session} />}
      {person && (
        <Activity mode={session && !lacksFactor ? "visible" : "hidden"}>
          <Suspense fallback={<Loading what="the console" />}>
            <Console email={person.email ?? "Account"} />
          </Suspense>
        </Activity>
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
