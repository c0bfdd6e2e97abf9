import {
  createHashHistory,
  createRootRoute,
  createRoute,
  createRouter,
  Navigate,
} from "@tanstack/react-router";
import { Log } from "../log/log.tsx";
import { Broken } from "../shared/parts.tsx";
import { KEYS_SEARCH, LOG_SEARCH, RANGE, USAGE_SEARCH } from "../shared/search.ts";
import { lazyScreen } from "./lazy_screen.tsx";
import { Home, Readable } from "./organization.tsx";
import { Shell } from "./shell.tsx";

// The console's addresses come after the #, because a host of static files knows one path only:
// #/<organization>/<screen>?<filters>. They never have a secret in them. A link chooses what a person sees of what
// they may see. It changes nothing.

function sealScreen(name: "Seals" | "ProvePeriod" | "CheckPack") {
  return lazyScreen(async () => ({ default: (await import("../seals/screens.ts"))[name] }));
}

export const CheckPack = sealScreen("CheckPack");

const root = createRootRoute({ component: Shell });
const home = createRoute({ getParentRoute: () => root, path: "/", component: Home });
const organization = createRoute({
  getParentRoute: () => root,
  path: "/$organizationId",
  component: Readable,
});
const screen = { getParentRoute: () => organization };
const index = createRoute({ ...screen, path: "/" });
const log = createRoute({ ...screen, path: "log", validateSearch: LOG_SEARCH, component: Log });
const keys = createRoute({
  ...screen,
  path: "keys",
  validateSearch: KEYS_SEARCH,
  component: lazyScreen(() => import("../keys/keys.tsx")),
});
const usage = createRoute({
  ...screen,
  path: "usage",
  validateSearch: USAGE_SEARCH,
  component: lazyScreen(() => import("../usage/usage.tsx")),
});
const seals = createRoute({
  ...screen,
  path: "seals",
  validateSearch: RANGE,
  component: sealScreen("Seals"),
});
const prove = createRoute({ ...screen, path: "seals/prove", component: sealScreen("ProvePeriod") });

export function newRouter() {
  return createRouter({
    routeTree: root.addChildren([
      home,
      organization.addChildren([index, log, keys, usage, seals, prove]),
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
