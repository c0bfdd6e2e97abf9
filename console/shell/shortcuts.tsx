import { useWindowEvent } from "@mantine/hooks";
import { useState } from "react";
import { Dialog, isDialogOpen } from "../shared/dialog.tsx";

const KEYS = [
  ["/", "Search or filter"],
  ["J or ↓", "Next row of the log"],
  ["K or ↑", "Row before"],
  ["Enter", "Open the entry"],
  ["Esc", "Close what is open"],
  ["?", "Show these keys"],
];

/** Lets "/" lead to the screen's search, and "?" explain the keys, unless the person is typing. */
export function Shortcuts() {
  const [isOpen, setIsOpen] = useState(false);
  useWindowEvent("keydown", (event) => {
    const { target, key } = event;
    const isTyped = target instanceof Element && target.matches("input, select, textarea");
    if (isTyped || event.ctrlKey || event.metaKey || event.altKey || isDialogOpen()) return;
    if (key === "?") setIsOpen(true);
    if (key !== "/") return;
    const search = document.querySelector<HTMLElement>('[aria-keyshortcuts="/"]');
    search?.focus();
    if (search instanceof HTMLButtonElement) search.click();
    // Firefox searches in the page.
    event.preventDefault();
  });
  if (!isOpen) return null;
  return (
    <Dialog title="Keys" isBusy={false} onClose={() => setIsOpen(false)}>
      <table>
        <tbody>
          {KEYS.map(([key, meaning]) => (
            <tr key={key}>
              <th scope="row" style={{ width: 96, textAlign: "left" }}>
                <kbd>{key}</kbd>
              </th>
              <td>{meaning}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Dialog>
  );
}
