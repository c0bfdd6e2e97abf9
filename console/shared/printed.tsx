import { useWindowEvent } from "@mantine/hooks";
import { useState } from "react";
import { flushSync } from "react-dom";
import { useOrganization } from "../data/organizations.ts";
import { formatTime } from "./days.ts";
import { visible } from "../../common/visible.ts";

/** The heading while the page is printed: whose log, what of it, and when. Screens say so in their controls. */
export function Printed({ facts }: { facts: (string | false | undefined)[] }) {
  const { name } = useOrganization();
  const [now, setNow] = useState("");
  useWindowEvent("beforeprint", () => flushSync(() => setNow(new Date().toISOString())));
  useWindowEvent("afterprint", () => setNow(""));
  if (!now) return null;
  return (
    <div className="printed">
      Organization:{" "}
      <strong>
        <bdi>{name}</bdi>
      </strong>
      {facts.filter(Boolean).map((fact, index) => <div key={index}>{fact && visible(fact)}</div>)}
      <div>Printed at {formatTime(now).slice(0, 19)} UTC</div>
    </div>
  );
}
