/** The console's rooms in the navigation, each with the paths of its screens. */
const ROOMS = [
  { name: "Activity", icon: "log", paths: ["log"] },
  { name: "Destinations", icon: "send", paths: ["streams"] },
  { name: "Access", icon: "key", paths: ["keys", "usage"] },
  { name: "Integrity", icon: "seal", paths: ["seals"] },
  { name: "Settings", icon: "settings", paths: ["settings"] },
] as const;

/** The rooms with the screens that a person may see, and that are installed. */
export function roomsFor({ is_admin }: { is_admin: boolean }, hasStreams: boolean) {
  return ROOMS.filter(({ name }) => hasStreams || name !== "Destinations")
    .map(({ paths, ...room }) => ({
      ...room,
      paths: paths.filter((path) => is_admin || path !== "keys"),
    }));
}
