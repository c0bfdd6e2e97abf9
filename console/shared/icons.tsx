const PATHS = {
  check: "m5 13 4 4L19 7",
  close: "m6 6 12 12M18 6 6 18",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  dots: "M5 12h.1M12 12h.1M19 12h.1",
  down: "m6 9 6 6 6-6",
  download: "M12 4v11m-5-5 5 5 5-5M4 20h16",
  filter: "M4 6h16M7 12h10M10 18h4",
  key: "M14.5 9.5 21 3m-3.5 3.5L20 9M15 14.5a5.5 5.5 0 1 1-11 0 5.5 5.5 0 0 1 11 0",
  log: "M8 6h12M8 12h12M8 18h12M4 6h.1M4 12h.1M4 18h.1",
  person: "M16 8a4 4 0 1 1-8 0 4 4 0 0 1 8 0M4 21a8 8 0 0 1 16 0",
  plus: "M12 5v14M5 12h14",
  refresh: "M20 11A8 8 0 0 0 6 6.5L4 8.5M4 4v4.5h4.5M4 13a8 8 0 0 0 14 4.5l2-2M20 20v-4.5h-4.5",
  search: "M17 10.5a6.5 6.5 0 1 1-13 0 6.5 6.5 0 0 1 13 0M15.5 15.5 20 20",
  seal: "M12 3 5 6v5c0 5 3 8 7 10 4-2 7-5 7-10V6zM9 12l2 2 4-4",
  send: "M3 7h9M3 12h18M3 17h9m4-10 5 5-5 5",
  settings: "M4 6h7m4 0h5M4 12h3m4 0h9M4 18h9m4 0h3M13 4v4M9 10v4M15 16v4",
  up: "m6 15 6-6 6 6",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      strokeWidth="2"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
