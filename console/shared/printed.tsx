import { useWindowEvent } from "@mantine/hooks";
import { useState } from "react";
import { flushSync } from "react-dom";
import { useOrganization } from "../data/organizations.ts";
import { formatTime } from "./days.ts";
import { visible } from "../../common/visible.ts";

/** Whether the page is being printed. */
export function usePrinting(): boolean {
  const [isPrinting, setIsPrinting] = useState(false);
  useWindowEvent("beforeprint", () => flushSync(() => setIsPrinting(true)));
  useWindowEvent("afterprint", () => setIsPrinting(false));
  return isPrinting;
}

/** The heading while the page is printed: whose log, what of it, and when. Screens say so in their controls. */
export function Printed({ facts }: { facts: (string | false | undefined)[] }) {
  const { name } = useOrganization();
  if (!usePrinting()) return null;
  return (
    <div className="printed">
      Organization:{" "}
      <strong>
        <bdi>{name}</bdi>
      </strong>
      {facts.filter(Boolean).map((fact, index) => <div key={index}>{fact && visible(fact)}</div>)}
      <div>Printed at {formatTime(new Date().toISOString()).slice(0, 19)} UTC</div>
    </div>
  );
}
