import { useQuery } from "@tanstack/react-query";
import * as z from "zod/mini";
import { check, fetchInTime, PROJECT_URL, PUBLISHABLE_KEY } from "../shared/transport.ts";

/** Providers whose names are not just their codes with a capital. */
const NAMES: Record<string, string> = {
  azure: "Microsoft",
  bitbucket: "Bitbucket",
  github: "GitHub",
  gitlab: "GitLab",
  linkedin_oidc: "LinkedIn",
  slack_oidc: "Slack",
  workos: "WorkOS",
};
/** What Auth lists beside the providers. */
const NO_PROVIDERS = ["email", "phone", "anonymous_users", "saml"];

export interface Provider {
  id: string;
  name: string;
}

/** The ways in which people sign in to this console. */
export interface Methods {
  password: boolean;
  code: boolean;
  saml: boolean;
  providers: Provider[];
}

const SETTINGS = z.object({
  external: z.record(z.string(), z.boolean()),
  saml_enabled: z.optional(z.boolean()),
});

/** Those that the build allows: all, unless it names some, as in `password,google`. */
const ALLOWED = import.meta.env.VITE_SIGN_IN?.split(",").map((name) => name.trim()).filter(Boolean);

function isAllowed(name: string): boolean {
  return !ALLOWED?.length || ALLOWED.includes(name);
}

/** What the project's Auth knows, as far as the build allows; until it has said so, a password. */
export function useMethods(): Methods {
  const { data } = useQuery({
    queryKey: ["auth settings"],
    queryFn: async ({ signal }) => {
      const headers = { apikey: PUBLISHABLE_KEY };
      const answer = await fetchInTime(`${PROJECT_URL}/auth/v1/settings`, { headers, signal });
      return check(SETTINGS, await answer.json());
    },
    staleTime: Infinity,
  });
  const hasEmail = data?.external["email"] !== false;
  const providers = Object.entries(data?.external ?? {})
    .filter(([id, isOn]) => isOn && !NO_PROVIDERS.includes(id) && isAllowed(id))
    .map(([id]) => ({ id, name: NAMES[id] ?? id.slice(0, 1).toUpperCase() + id.slice(1) }));
  return {
    password: hasEmail && isAllowed("password"),
    code: data !== undefined && hasEmail && isAllowed("code"),
    saml: data?.saml_enabled === true && isAllowed("saml"),
    providers,
  };
}
