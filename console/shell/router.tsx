import {
  createHashHistory,
  createRootRoute,
  createRoute,
  createRouter,
  Navigate,
  redirect,
} from "@tanstack/react-router";
import { Access, ACCESS_ADDRESS } from "../access/access.tsx";
import { Keys, KEYS_ADDRESS } from "../keys/keys.tsx";
import { Log, LOG_ADDRESS } from "../log/log.tsx";
import { Seals } from "../seals/seals.tsx";
import { Broken } from "../shared/parts.tsx";
import { RANGE } from "../shared/range.tsx";
import { Administered, Home } from "./organization.tsx";
import { Shell } from "./shell.tsx";

// The console's addresses come after the #, because a host of static files knows one path only:
// #/<organization>/<screen>?<filters>. They never have a secret in them. A link chooses what a person sees of what
// they may see. It changes nothing.

const root = createRootRoute({ component: Shell });
const home = createRoute({ getParentRoute: () => root, path: "/", component: Home });
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
const log = createRoute({ ...screen, path: "log", validateSearch: LOG_ADDRESS, component: Log });
const keys = createRoute({
  ...screen,
  path: "keys",
  validateSearch: KEYS_ADDRESS,
  component: Keys,
});
const access = createRoute({
  ...screen,
  path: "access",
  validateSearch: ACCESS_ADDRESS,
  component: Access,
});
const seals = createRoute({ ...screen, path: "seals", validateSearch: RANGE, component: Seals });

export function newRouter() {
  return createRouter({
    routeTree: root.addChildren([
      home,
      organization.addChildren([index, log, keys, access, seals]),
    ]),
    history: createHashHistory(),
    defaultNotFoundComponent: () => <Navigate to="/" replace />,
    defaultErrorComponent: Broken,
  });
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof newRouter>;
  }
}
