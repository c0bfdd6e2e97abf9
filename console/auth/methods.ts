import { useQuery } from "@tanstack/react-query";
import { fetchInTime, PROJECT_URL, PUBLISHABLE_KEY } from "../shared/transport.ts";

/** Names of providers that are not simply the code with a capital letter. */
const NAMES: Record<string, string> = {
  azure: "Microsoft",
  github: "GitHub",
  gitlab: "GitLab",
  linkedin_oidc: "LinkedIn",
  slack_oidc: "Slack",
  workos: "WorkOS",
};
/** Auth lists these beside the providers. */
const NO_PROVIDERS = ["email", "phone", "anonymous_users", "saml"];

/** What Auth may answer. A schema would make the sign-in form wait for zod. */
type Settings = { external?: Record<string, unknown>; saml_enabled?: unknown } | null;

/** The ways to sign in that the build allows, as in `password,google`. Empty means all. */
const ALLOWED = import.meta.env.VITE_SIGN_IN?.split(",").map((name) => name.trim()).filter(Boolean);

function isAllowed(name: string): boolean {
  return !ALLOWED?.length || ALLOWED.includes(name);
}

/** The ways to sign in that Auth offers and the build allows. Until Auth answers, that is a password. */
export function useMethods() {
  const { data } = useQuery({
    queryKey: ["auth settings"],
    queryFn: async ({ signal }) => {
      const headers = { apikey: PUBLISHABLE_KEY };
      const answer = await fetchInTime(`${PROJECT_URL}/auth/v1/settings`, { headers, signal });
      const settings: Settings = await answer.json();
      const { external, saml_enabled } = settings ?? {};
      if (external) return { external, saml_enabled };
      throw new Error("Auth did not list the ways to sign in.");
    },
    staleTime: Infinity,
  });
  const hasEmail = data?.external["email"] !== false;
  const providers = Object.entries(data?.external ?? {})
    .filter(([id, isOn]) => isOn === true && !NO_PROVIDERS.includes(id) && isAllowed(id))
    .map(([id]) => ({ id, name: NAMES[id] ?? id.slice(0, 1).toUpperCase() + id.slice(1) }));
  return {
    password: hasEmail && isAllowed("password"),
    code: data !== undefined && hasEmail && isAllowed("code"),
    saml: data?.saml_enabled === true && isAllowed("saml"),
    providers,
  };
}
