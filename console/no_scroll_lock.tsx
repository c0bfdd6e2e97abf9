import type { ReactNode } from "react";

/** In the place of react-remove-scroll, 4 kB whose styles the page's policy forbids (console/build.ts). */
export function RemoveScroll({ children }: { children: ReactNode }) {
  return <div>{children}</div>;
}
