import { useTimeout } from "@mantine/hooks";
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
  function screen() {
    if (IS_CHECK) return <WithoutSignIn />;
    if (session === undefined) return <Loading what="your session" />;
    if (session && needsSecondFactor(session)) return <SecondFactor session={session} />;
    if (session) return <Console email={session.user.email ?? "Account"} />;
    if (!IS_EMBEDDED) return <SignIn reason={reason} />;
    if (refusal) return <Failure error={refusal} onRetry={askAncestor} />;
    return <WaitForAncestor />;
  }
  return (
    <QueryClientProvider key={userId} client={client}>
      <Suspense fallback={<Loading what="the console" />}>{screen()}</Suspense>
    </QueryClientProvider>
  );
}

/** A page that answers does so at once. */
const ANSWER_MS = 10_000;

const NO_SESSION = new Error(
  "The page around this one gives no session. Reload that page, or sign in there again. " +
    "If that fails, tell whoever runs it: it must answer the message audit-log-console:ready.",
);

function WaitForAncestor() {
  const [isSilent, setIsSilent] = useState(false);
  const { start } = useTimeout(() => setIsSilent(true), ANSWER_MS, { autoInvoke: true });
  const retry = () => {
    setIsSilent(false);
    start();
    askAncestor();
  };
  if (isSilent) return <Failure error={NO_SESSION} onRetry={retry} />;
  return <Loading what="your session from the page around this one" />;
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
