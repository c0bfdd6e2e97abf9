interface BarsProps {
  label: string;
  /** `isBad`: something failed, which a red foot shows. */
  bars: { value: number; isBad?: boolean }[];
}

/** A chart in a cell of a table. */
export function Bars({ label, bars }: BarsProps) {
  const highest = Math.max(1, ...bars.map(({ value }) => value));
  return (
    <svg
      width="100%"
      height={18}
      fill="var(--chart)"
      style={{ display: "block", maxWidth: 120, borderBottom: "1px solid var(--line)" }}
      viewBox={`0 0 ${bars.length * 3} 20`}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      {bars.map(({ value, isBad }, index) => {
        const height = value ? Math.max(1, value / highest * 20) : 0;
        return (
          <g key={index}>
            <rect x={index * 3} y={20 - height} width={2} height={height} />
            {isBad && <rect x={index * 3} y={14} width={2} height={6} fill="var(--bad)" />}
          </g>
        );
      })}
    </svg>
  );
}
