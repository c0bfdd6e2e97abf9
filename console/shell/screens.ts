const SCREENS = [
  { to: "/$organizationId/log", path: "log", name: "Log", icon: "log" },
  { to: "/$organizationId/keys", path: "keys", name: "API keys", icon: "key" },
  { to: "/$organizationId/streams", path: "streams", name: "Streams", icon: "send" },
  { to: "/$organizationId/usage", path: "usage", name: "Usage", icon: "people" },
  { to: "/$organizationId/seals", path: "seals", name: "Seals", icon: "seal" },
] as const;

/** The screens that a person may see. */
export function screensFor({ is_admin }: { is_admin: boolean }) {
  return SCREENS.filter(({ path }) => is_admin || path !== "keys");
}
