import { VisuallyHidden } from "@mantine/core";
import { memo, type MouseEvent, type ReactNode } from "react";
import { Hint } from "./parts.tsx";
import type { Sorting } from "./search.ts";
import styles from "./table.module.css";
import { visible } from "./visible.ts";

export interface Column<T> {
  name: string;
  /** A track of CSS grid. */
  width: string;
  /** Sorts the rows, and fills the cell if there is no `cell`. */
  value?: (row: T) => number | string;
  cell?: (row: T) => ReactNode;
  /** Small print below the cell. */
  hint?: (row: T) => ReactNode;
  isRowHeader?: boolean;
  isNumber?: boolean;
  /** Hides the name above the column, and on a phone beside its value. */
  isNameHidden?: boolean;
}

/** Orders names as a person would: "Customer 2" before "Customer 10". */
export const { compare: compareNames } = new Intl.Collator("en", { numeric: true });

export function sorted<T>(rows: T[], columns: Column<T>[], { sort, descending }: Sorting): T[] {
  const value = columns.find(({ name }) => name === sort)?.value;
  if (!value) return rows;
  const sign = descending ? -1 : 1;
  return rows.toSorted((one, other) => {
    const [a, b] = [value(one), value(other)];
    return sign * (typeof a === "number" ? a - Number(b) : compareNames(a, String(b)));
  });
}

export interface TableProps<T> {
  label: string;
  /** The table draws a row again only when the row or these columns change. */
  columns: Column<T>[];
  rows: T[];
  idOf: (row: T) => string;
  sorting?: Sorting;
  onSort?: (sorting: Sorting) => void;
  /** The row that is open beside the table. */
  openId?: string | undefined;
  /** Makes rows pressable. `row` is the index. */
  onPress?: (row: number, event: MouseEvent<HTMLElement>) => void;
}

/**
 * The console's one table. On a phone each row is a card. The browser skips rows that are out of sight, and still
 * finds text in them. The roles are needed because elements laid out as a grid lose theirs.
 */
export function Table<T>(props: TableProps<T>) {
  const { label, columns, rows, idOf, sorting = {}, onSort, openId, onPress } = props;
  return (
    <table
      role="table"
      aria-label={label}
      className={styles.table}
      data-pressable={onPress !== undefined || undefined}
      style={{ "--columns": columns.map(({ width }) => width).join(" ") } as React.CSSProperties}
    >
      <thead role="rowgroup">
        <tr role="row">
          {columns.map((column) => (
            <Heading key={column.name} column={column} sorting={sorting} onSort={onSort} />
          ))}
        </tr>
      </thead>
      <tbody
        role="rowgroup"
        onClick={onPress && ((event) => {
          const row = event.target instanceof Element && event.target.closest("tr");
          if (row) onPress(row.sectionRowIndex, event);
        })}
      >
        {rows.map((row) => (
          <Row key={idOf(row)} row={row} columns={columns} isOpen={idOf(row) === openId} />
        ))}
      </tbody>
    </table>
  );
}

type OnSort = TableProps<unknown>["onSort"];
type HeadingProps<T> = { column: Column<T>; sorting: Sorting; onSort: OnSort };

function Heading<T>({ column, sorting, onSort }: HeadingProps<T>) {
  const { name, value, isNumber, isNameHidden } = column;
  const attributes = { role: "columnheader", scope: "col", "data-number": isNumber } as const;
  if (!value || !onSort) {
    return <th {...attributes}>{isNameHidden ? <VisuallyHidden>{name}</VisuallyHidden> : name}</th>;
  }
  const isSorted = sorting.sort === name;
  const order = sorting.descending ? "descending" : "ascending";
  const descending = isSorted && !sorting.descending ? true : undefined;
  return (
    <th {...attributes} aria-sort={isSorted ? order : "none"}>
      <button type="button" onClick={() => onSort({ sort: name, descending })}>{name}</button>
    </th>
  );
}

type RowProps<T> = { row: T; columns: Column<T>[]; isOpen: boolean };

const Row = memo(function Row<T,>({ row, columns, isOpen }: RowProps<T>) {
  return (
    <tr role="row" aria-selected={isOpen || undefined}>
      {columns.map(({ name, isRowHeader, isNumber, isNameHidden, value, cell, hint }) => {
        const Cell = isRowHeader ? "th" : "td";
        const small = hint?.(row);
        return (
          <Cell
            key={name}
            role={isRowHeader ? "rowheader" : "cell"}
            data-name={isNameHidden ? undefined : name}
            data-number={isNumber}
          >
            {cell ? cell(row) : visible(value?.(row).toLocaleString("en") ?? "")}
            {small && <Hint>{small}</Hint>}
          </Cell>
        );
      })}
    </tr>
  );
}) as <T>(props: RowProps<T>) => ReactNode;
