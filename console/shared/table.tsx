import { VisuallyHidden } from "@mantine/core";
import { useHotkeys } from "@mantine/hooks";
import { type KeyboardEvent, memo, type MouseEvent, type ReactNode, useRef, useState } from "react";
import { isDialogOpen } from "./dialog.tsx";
import { Hint } from "./parts.tsx";
import styles from "./table.module.css";
import { visible } from "../../supabase/functions/_shared/visible.ts";

export interface Column<T> {
  name: string;
  /** A track of CSS grid. */
  width: string;
  /** Fills the cell if there is no `cell`. */
  value?: (row: T) => number | string;
  /** In a table whose rows can be pressed, a link takes `tabIndex`. */
  cell?: (row: T, tabIndex: number) => ReactNode;
  /** Small print below the cell. */
  hint?: (row: T) => ReactNode;
  isRowHeader?: boolean;
  isNumber?: boolean;
  /** Hides the name above the column, and on a phone beside its value, which stands in the card's corner. */
  isNameHidden?: boolean;
  /**
   * On a phone, the column's parts stand on one line without its name, beside those of its neighbours (a number keeps its
   * name), or not at all.
   */
  onPhone?: "line" | "beside" | "left out";
}

interface TableProps<T> {
  label: string;
  /** The table draws a row again only when the row or these columns change. */
  columns: Column<T>[];
  rows: T[];
  idOf: (row: T) => string;
  /** The row that is open beside the table. */
  openId?: string | undefined;
  /** Makes rows pressable. `row` is the index. */
  onPress?: (row: number, event: MouseEvent<HTMLElement>) => void;
}

/** A group is drawn and laid out as one. With a group for each row, a thousand rows would cost twice as much. */
const ROWS_IN_GROUP = 25;

/**
 * The console's one table. On a phone each row is a card. The browser skips groups of rows that are out of sight, and
 * still finds text in them. The roles are needed because elements laid out as a grid lose theirs. Tab reaches one of the
 * rows that can be pressed, and the arrows or J and K the others.
 */
export function Table<T>(props: TableProps<T>) {
  const { label, columns, rows, idOf, openId, onPress } = props;
  const table = useRef<HTMLTableElement>(null);
  const [focusedId, setFocusedId] = useState<string>();
  const ids = rows.map(idOf);
  const tabbed = [openId, focusedId].find((id) => id !== undefined && ids.includes(id)) ?? ids[0];
  function focusRow(step: 1 | -1): void {
    if (isDialogOpen()) return;
    const links = [...table.current?.querySelectorAll("a") ?? []];
    const at = links.findIndex((link) => link === document.activeElement);
    links[at < 0 ? links.findIndex(({ tabIndex }) => tabIndex === 0) : at + step]?.focus();
  }
  function moveFocus(event: KeyboardEvent): void {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    focusRow(event.key === "ArrowDown" ? 1 : -1);
    event.preventDefault();
  }
  // Beside an open entry, these keys lead to another one.
  const hasKeys = onPress !== undefined && openId === undefined;
  useHotkeys(hasKeys ? [["j", () => focusRow(1)], ["k", () => focusRow(-1)]] : []);
  const groups = Array.from({ length: Math.ceil(rows.length / ROWS_IN_GROUP) }, (_, group) => {
    const first = group * ROWS_IN_GROUP;
    return { first, rows: rows.slice(first, first + ROWS_IN_GROUP) };
  });
  return (
    <table
      ref={table}
      role="table"
      aria-label={label}
      className={styles.table}
      data-pressable={onPress !== undefined || undefined}
      style={{ "--columns": columns.map(({ width }) => width).join(" ") } as React.CSSProperties}
      onKeyDown={onPress && moveFocus}
      onFocus={onPress && (({ target }) => setFocusedId(ids[rowAt(target)]))}
      onClick={onPress && ((event) => {
        const row = rowAt(event.target);
        if (row >= 0) onPress(row, event);
      })}
    >
      <thead role="rowgroup">
        <tr role="row">
          {columns.map(({ name, isNumber, isNameHidden }) => (
            <th key={name} role="columnheader" scope="col" data-number={isNumber}>
              {isNameHidden ? <VisuallyHidden>{name}</VisuallyHidden> : name}
            </th>
          ))}
        </tr>
      </thead>
      {groups.map(({ first, rows }) => (
        <tbody
          key={first}
          role="rowgroup"
          style={{ "--rows": rows.length } as React.CSSProperties}
        >
          {rows.map((row, index) => {
            const id = ids[first + index];
            return (
              <Row
                key={id}
                row={row}
                columns={columns}
                isOpen={id === openId}
                tabIndex={id === tabbed ? 0 : -1}
              />
            );
          })}
        </tbody>
      ))}
    </table>
  );
}

/** The index of the row with an element. That of the head is -1. */
function rowAt(target: EventTarget): number {
  const row = target instanceof Element && target.closest("tr");
  return row ? row.rowIndex - 1 : -1;
}

type RowProps<T> = { row: T; columns: Column<T>[]; isOpen: boolean; tabIndex: number };

const Row = memo(function Row<T,>({ row, columns, isOpen, tabIndex }: RowProps<T>) {
  return (
    <tr role="row" aria-selected={isOpen || undefined}>
      {columns.map(({ name, isRowHeader, isNumber, isNameHidden, onPhone, value, cell, hint }) => {
        const Cell = isRowHeader ? "th" : "td";
        const small = hint?.(row);
        return (
          <Cell
            key={name}
            role={isRowHeader ? "rowheader" : "cell"}
            data-name={isNameHidden ? undefined : name}
            data-number={isNumber}
            data-phone={onPhone}
          >
            {cell ? cell(row, tabIndex) : visible(value?.(row).toLocaleString("en") ?? "")}
            {small && <Hint>{small}</Hint>}
          </Cell>
        );
      })}
    </tr>
  );
}) as <T>(props: RowProps<T>) => ReactNode;
