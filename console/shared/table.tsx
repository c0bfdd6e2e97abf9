import { VisuallyHidden } from "@mantine/core";
import { memo, type MouseEvent, type ReactNode } from "react";
import styles from "./table.module.css";

export interface Column<T> {
  name: string;
  /** A track of CSS grid. */
  width: string;
  /** By what a press on its name sorts. */
  sort?: string;
  isRowHeader?: boolean;
  isNumber?: boolean;
  /** Not shown above the column, nor beside its value on a phone. */
  isNameHidden?: boolean;
  cell: (row: T) => ReactNode;
}

export interface Sorting {
  by: string | undefined;
  isDescending: boolean;
  onSort: (by: string) => void;
}

export interface TableProps<T> {
  label: string;
  /** Stable: as long as a row and the columns are the same, nothing of it is drawn again. */
  columns: Column<T>[];
  rows: T[];
  idOf: (row: T) => string;
  sorting?: Sorting;
  /** The row that is open beside the table. */
  openId?: string | undefined;
  /** Rows can be pressed; `row` is the index. */
  onPress?: (row: number, event: MouseEvent<HTMLElement>) => void;
}

/**
 * The console's one table; on a phone each row is a card. Not a virtual list: the browser skips the rows that are
 * out of sight, and still finds text in them. The roles say again what the elements are, since rows that are
 * laid out as a grid lose it.
 */
export function Table<T>(props: TableProps<T>) {
  const { label, columns, rows, idOf, sorting, openId, onPress } = props;
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
          {columns.map((column) => <Heading key={column.name} column={column} sorting={sorting} />)}
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

interface HeadingProps<T> {
  column: Column<T>;
  sorting: Sorting | undefined;
}

function Heading<T>({ column, sorting }: HeadingProps<T>) {
  const { name, sort, isNumber, isNameHidden } = column;
  const attributes = { role: "columnheader", scope: "col", "data-number": isNumber } as const;
  if (!sort || !sorting) {
    return <th {...attributes}>{isNameHidden ? <VisuallyHidden>{name}</VisuallyHidden> : name}</th>;
  }
  const { by, isDescending, onSort } = sorting;
  const order = by !== sort ? "none" : isDescending ? "descending" : "ascending";
  return (
    <th {...attributes} aria-sort={order}>
      <button type="button" onClick={() => onSort(sort)}>{name}</button>
    </th>
  );
}

interface RowProps<T> {
  row: T;
  columns: Column<T>[];
  isOpen: boolean;
}

const Row = memo(function Row<T,>({ row, columns, isOpen }: RowProps<T>) {
  return (
    <tr role="row" aria-selected={isOpen || undefined}>
      {columns.map(({ name, isRowHeader, isNumber, isNameHidden, cell }) => {
        const Cell = isRowHeader ? "th" : "td";
        return (
          <Cell
            key={name}
            role={isRowHeader ? "rowheader" : "cell"}
            data-name={isNameHidden ? undefined : name}
            data-number={isNumber}
          >
            {cell(row)}
          </Cell>
        );
      })}
    </tr>
  );
}) as <T>(props: RowProps<T>) => ReactNode;
