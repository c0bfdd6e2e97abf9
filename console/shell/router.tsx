import {
  createHashHistory,
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
} from "@tanstack/react-router";
import { Log } from "../log/log.tsx";
import { Broken, Loading } from "../shared/parts.tsx";
import { KEYS_SEARCH, LOG_SEARCH, RANGE, SEALS_SEARCH } from "../shared/search_params.ts";
import { loaded } from "../shared/transport.ts";
import { Home, Readable, ToLog } from "./organization.tsx";
import { Shell } from "./shell.tsx";

// The console's addresses come after the #, because a host of static files knows one path only:
// #/<organization>/<screen>?<filters>. They never have a secret in them. A link chooses what a person sees of what
// they may see. It changes nothing.

const loadScript = () => loaded(import("./keys_and_streams.ts"));

const root = createRootRoute({ component: Shell });
const home = createRoute({ getParentRoute: () => root, path: "/", component: Home });
const organization = createRoute({
  getParentRoute: () => root,
  path: "/$organizationId",
  component: Readable,
});
const screen = { getParentRoute: () => organization };
const unknown = createRoute({ ...screen, path: "$", component: ToLog });
const log = createRoute({ ...screen, path: "log", validateSearch: LOG_SEARCH, component: Log });
const keys = createRoute({
  ...screen,
  path: "keys",
  validateSearch: KEYS_SEARCH,
  component: lazyRouteComponent(loadScript, "Keys"),
});

type OfStreams = "Streams" | "NewStream" | "OneStream" | "ChangeStream";

function ofStreams<Path extends string>(path: Path, component: OfStreams) {
  return createRoute({ ...screen, path, component: lazyRouteComponent(loadScript, component) });
}

const usage = createRoute({
  ...screen,
  path: "usage",
  validateSearch: RANGE,
  component: lazyRouteComponent(() => loaded(import("../usage/usage.tsx"))),
});
const seals = createRoute({
  ...screen,
  path: "seals",
  validateSearch: SEALS_SEARCH,
  component: lazyRouteComponent(() => loaded(import("../seals/seals.tsx"))),
});
const settings = createRoute({
  ...screen,
  path: "settings",
  component: lazyRouteComponent(() => loaded(import("../settings/settings.tsx"))),
});

export function newRouter() {
  return createRouter({
    routeTree: root.addChildren([
      home,
      organization.addChildren([
        unknown,
        log,
        keys,
        ofStreams("streams", "Streams"),
        ofStreams("streams/new", "NewStream"),
        ofStreams("streams/$streamId", "OneStream"),
        ofStreams("streams/$streamId/change", "ChangeStream"),
        usage,
        seals,
        settings,
      ]),
    ]),
    history: createHashHistory(),
    defaultErrorComponent: Broken,
    defaultPendingComponent: () => <Loading what="the screen" />,
    // Loads a screen when the pointer or the focus comes to its link.
    defaultPreload: "intent",
  });
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof newRouter>;
  }
}
