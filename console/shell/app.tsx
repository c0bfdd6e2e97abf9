import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { lazy, Suspense, useEffect, useMemo, useState } from "react";
import { askAncestor, listenToAncestor } from "../auth/embedding.ts";
import { SecondFactor } from "../auth/second_factor.tsx";
import { needsSecondFactor, useSession } from "../auth/session.ts";
import { SignIn } from "../auth/sign_in.tsx";
import { Failure, Loading } from "../shared/parts.tsx";
import { IS_EMBEDDED, loaded, RequestError } from "../shared/transport.ts";

const RETRY_MS = 5_000;

const loadConsole = () => loaded(import("./console.tsx"));
const Console = lazy(loadConsole);
const WithoutSignIn = lazy(async () => ({ default: (await loadConsole()).WithoutSignIn }));

/** The address of what needs nobody's data. */
const IS_CHECK = location.search === "?pack";

export function App() {
  const { session, reason } = useSession();
  const userId = session?.user.id;
  // Each person gets a client of their own, so that nobody sees what another has read.
  const client = useMemo(newClient, [userId]);
  const [refusal, setRefusal] = useState<Error | null>(null);
  useEffect(() => IS_EMBEDDED ? listenToAncestor(setRefusal) : undefined, []);
  // Loads while the person types. If that fails, the console tries again when it is needed.
  useEffect(() => {
    if (session === null) loadConsole().catch(() => {});
  }, [session === null]);
  if (IS_CHECK) {
    return (
      <QueryClientProvider client={client}>
        <Suspense fallback={<Loading what="the check" />}>
          <WithoutSignIn />
        </Suspense>
      </QueryClientProvider>
    );
  }
  return (
    <QueryClientProvider key={userId} client={client}>
      {session === undefined && <Loading what="your session" />}
      {session === null && !IS_EMBEDDED && <SignIn reason={reason} />}
      {session === null && IS_EMBEDDED && (refusal
        ? <Failure error={refusal} onRetry={askAncestor} />
        : <Loading what="your session from the page around this one" />)}
      {session && needsSecondFactor(session) && <SecondFactor session={session} />}
      {session && !needsSecondFactor(session) && (
        <Suspense fallback={<Loading what="the console" />}>
          <Console email={session.user.email ?? "Account"} />
        </Suspense>
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
