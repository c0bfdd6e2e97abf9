import { CHOICES } from "../auth/embedding.ts";

const SCREENS = [
  { to: "/$organizationId/log", path: "log", name: "Log", icon: "log" },
  { to: "/$organizationId/keys", path: "keys", name: "API keys", icon: "key" },
  { to: "/$organizationId/streams", path: "streams", name: "Streams", icon: "send" },
  { to: "/$organizationId/usage", path: "usage", name: "Usage", icon: "people" },
  { to: "/$organizationId/seals", path: "seals", name: "Seals", icon: "seal" },
] as const;

/** Whether the page around this one, if there is one, wants a screen. */
export function isOffered(path: string): boolean {
  return CHOICES.screens.length === 0 || CHOICES.screens.includes(path);
}

/** The screens that a person may see. */
export function screensFor({ is_admin }: { is_admin: boolean }) {
  return SCREENS.filter(({ path }) => isOffered(path) && (is_admin || path !== "keys"));
}
