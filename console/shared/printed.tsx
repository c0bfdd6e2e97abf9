import { useEffect, useState } from "react";
import { flushSync } from "react-dom";
import { useOrganization } from "../data/organizations.ts";
import { formatTime } from "./days.ts";
import { visible } from "../../seals/visible.ts";

/** The heading while the page is printed: whose log, what of it, and when. Screens say so in their controls. */
export function Printed({ facts }: { facts: (string | false | undefined)[] }) {
  const { name } = useOrganization();
  const [now, setNow] = useState("");
  useEffect(() => {
    const page = document.documentElement.dataset;
    let colours = page["mantineColorScheme"];
    const before = () => {
      colours = page["mantineColorScheme"];
      page["mantineColorScheme"] = "light";
      flushSync(() => setNow(new Date().toISOString()));
    };
    const after = () => {
      if (colours) page["mantineColorScheme"] = colours;
      setNow("");
    };
    addEventListener("beforeprint", before);
    addEventListener("afterprint", after);
    return () => {
      removeEventListener("beforeprint", before);
      removeEventListener("afterprint", after);
    };
  }, []);
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
