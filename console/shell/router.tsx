import { type QueryClient } from "@tanstack/react-query";
import {
  createHashHistory,
  createRootRouteWithContext,
  createRoute,
  createRouter,
  redirect,
} from "@tanstack/react-router";
import { Access, readAccessAddress } from "../access/access.tsx";
import { readKeysAddress } from "../keys/address.ts";
import { Keys } from "../keys/keys.tsx";
import { readLogAddress } from "../log/address.ts";
import { Log } from "../log/log.tsx";
import { readSealsAddress, Seals } from "../seals/seals.tsx";
import { Broken, Failure } from "../shared/parts.tsx";
import { RequestError } from "../shared/transport.ts";
import { Administered, lastOrganization, Nothing } from "./administered.tsx";
import { ORGANIZATIONS } from "./organization.ts";
import { Shell } from "./shell.tsx";

// The console's own addresses come after the #, because a host of static files knows one path only:
// #/<organization>/<screen>?<filters>. No secret is ever in them, and nothing else of the address is
// read. A link only chooses what is shown, among what the person may see; it changes nothing.

const root = createRootRouteWithContext<{ client: QueryClient }>()({ component: Shell });
const home = createRoute({
  getParentRoute: () => root,
  path: "/",
  component: Nothing,
  beforeLoad: async ({ context: { client } }) => {
    const organizationId = lastOrganization(await client.ensureQueryData(ORGANIZATIONS));
    if (organizationId) {
      throw redirect({ to: "/$organizationId/log", params: { organizationId }, replace: true });
    }
  },
});
const unknown = createRoute({
  getParentRoute: () => root,
  path: "$",
  beforeLoad: () => {
    throw redirect({ to: "/", replace: true });
  },
});
const organization = createRoute({
  getParentRoute: () => root,
  path: "/$organizationId",
  component: Administered,
});
const screen = { getParentRoute: () => organization };
const index = createRoute({
  ...screen,
  path: "/",
  beforeLoad: ({ params }) => {
    throw redirect({ to: "/$organizationId/log", params, replace: true });
  },
});
const log = createRoute({ ...screen, path: "log", validateSearch: readLogAddress, component: Log });
const keys = createRoute({
  ...screen,
  path: "keys",
  validateSearch: readKeysAddress,
  component: Keys,
});
const access = createRoute({
  ...screen,
  path: "access",
  validateSearch: readAccessAddress,
  component: Access,
});
const seals = createRoute({
  ...screen,
  path: "seals",
  validateSearch: readSealsAddress,
  component: Seals,
});

export function newRouter(client: QueryClient) {
  return createRouter({
    routeTree: root.addChildren([
      home,
      unknown,
      organization.addChildren([index, log, keys, access, seals]),
    ]),
    history: createHashHistory(),
    context: { client },
    defaultErrorComponent: ({ error, reset }) =>
      error instanceof RequestError
        ? <Failure error={error} onRetry={reset} />
        : <Broken error={error} />,
  });
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof newRouter>;
  }
}
